// The prelude of kernels on tensor cores, for a host: barriers, copies of boxes, and products of warpgroups.
#pragma once

// Places in shared memory are distances from its start.
static unsigned shared_address(const void *place) { return (const unsigned char *)place - dynamic_shared_mem; }

struct Barrier { unsigned short n_arrivals, n_missing; int n_bytes : 31; unsigned phase : 1; };
static_assert(sizeof(Barrier) == 8, "a barrier takes 8 bytes");
static Barrier &barrier_at(unsigned at) { return *(Barrier *)(dynamic_shared_mem + at); }
static void end_phase_if_complete(Barrier &barrier) {
    if (barrier.n_missing || barrier.n_bytes) return;
    barrier.n_missing = barrier.n_arrivals;
    barrier.phase ^= 1;
}
static void init_barrier(unsigned at, unsigned n) { barrier_at(at) = {(unsigned short)n, (unsigned short)n, 0, 0}; }
static void publish_barriers() {}
static void arrive(unsigned at) {
    --barrier_at(at).n_missing;
    end_phase_if_complete(barrier_at(at));
}
static void expect_bytes(unsigned at, unsigned n) {
    barrier_at(at).n_bytes += n;
    arrive(at);
}
static void await_phase(unsigned at, unsigned parity) {
    while (barrier_at(at).phase == parity) turn();
}

// The extents are along memory, across, and of the batch.
struct TensorMap { const void *first; unsigned size; unsigned long long extents[3], strides[2]; unsigned box[2]; };

// Rows of 128 bytes, whose 16-byte parts are exchanged by the low bits of the row.
static unsigned swizzled(unsigned at) { return at ^ (at >> 7 & 7) << 4; }

static void fetch_box(unsigned to, const TensorMap *map, unsigned x, unsigned y, unsigned z, unsigned at) {
    unsigned n_bytes = 0;
    for (unsigned row = 0; row < map->box[1]; ++row)
        for (unsigned i = 0; i < map->box[0]; ++i, n_bytes += map->size) {
            const bool is_inside = x + i < map->extents[0] && y + row < map->extents[1] && z < map->extents[2];
            unsigned char *place = dynamic_shared_mem + swizzled(to + n_bytes);
            const size_t element = z * map->strides[1] + (y + row) * map->strides[0] + x + i;
            if (is_inside) std::memcpy(place, (const char *)map->first + element * map->size, map->size);
            else std::memset(place, 0, map->size);
        }
    barrier_at(at).n_bytes -= n_bytes;
    end_phase_if_complete(barrier_at(at));
}

struct uint4 { unsigned x, y, z, w; };

static void give_registers() {}
static void take_registers() {}
static void begin_products() {}
static void end_products() {}
template <int N> static void await_products() {}
template <int N> static void hold(float (&)[N]) {}

// A matrix in shared memory: its start, and the bytes between groups of 8 lines and between blocks of 128 bytes.
struct Matrix { unsigned start, group, block; };
template <int GROUP, int BLOCK> static unsigned long long matrix(unsigned at) {
    return (at & 0x3FFFF) >> 4 | (unsigned long long)(BLOCK >> 4) << 16 | (unsigned long long)(GROUP >> 4) << 32 | 1ull << 62;
}
static Matrix matrix_of(unsigned long long words) {
    return {(unsigned)(words & 0x3FFF) << 4, (unsigned)(words >> 32 & 0x3FFF) << 4, (unsigned)(words >> 16 & 0x3FFF) << 4};
}

// An element by its line and its place along the contracted axis.
template <class T, bool IS_ALONG> static float matrix_element(const Matrix &matrix, unsigned line, unsigned k) {
    const unsigned per_block = 128 / sizeof(T), size = sizeof(T);
    const unsigned at = IS_ALONG ? line / 8 * matrix.group + line % 8 * 128 + k * size
                                 : line / per_block * matrix.block + k / 8 * matrix.group + k % 8 * 128 + line % per_block * size;
    T element;
    std::memcpy(&element, dynamic_shared_mem + swizzled(matrix.start + at), size);
    return (float)element;
}

// Each thread of a warpgroup has two rows, and two neighbours of every eight columns.
template <class T, int COLUMNS, bool A_ALONG, bool B_ALONG>
static void reference_product(float (&sum)[COLUMNS / 2], unsigned long long a, unsigned long long b, int adds) {
    const Matrix left = matrix_of(a), right = matrix_of(b);
    const unsigned thread = threadIdx.x % 128, first_row = thread / 32 * 16 + thread % 32 / 4;
    for (unsigned i = 0; i < COLUMNS / 2; ++i) {
        const unsigned row = first_row + i / 2 % 2 * 8, column = i / 4 * 8 + thread % 4 * 2 + i % 2;
        double total = adds ? sum[i] : 0.0;
        for (unsigned k = 0; k < 32 / sizeof(T); ++k)
            total += (double)matrix_element<T, A_ALONG>(left, row, k) * matrix_element<T, B_ALONG>(right, column, k);
        sum[i] = (float)total;
    }
}

static void gather_columns(float (&x)[8]) {
    const unsigned lane = threadIdx.x % 4;
    for (unsigned distance = 1; distance < 4; ++distance)
        for (unsigned c = 0; c < 2; ++c) {
            // The pair for lane `lane ^ distance` lies at that lane's number.
            const float got = __shfl_xor_sync(-1, x[2 * (lane ^ distance) + c], distance);
            x[2 * (lane ^ distance) + c] = got;
        }
}
