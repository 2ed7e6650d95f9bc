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

// The extents are along memory, across, and of further axes.
struct TensorMap { const void *first; unsigned size; unsigned long long extents[5], strides[4]; unsigned box[2]; };

// Rows of 128 bytes, whose 16-byte parts are exchanged by the low bits of the row.
static unsigned swizzled(unsigned at) { return at ^ (at >> 7 & 7) << 4; }

static void fetch_box_5d(unsigned to, const TensorMap *map, unsigned x, unsigned y, unsigned z, unsigned w, unsigned v, unsigned at) {
    unsigned n_bytes = 0;
    const bool is_matrix = z < map->extents[2] && w < map->extents[3] && v < map->extents[4];
    const size_t start = z * map->strides[1] + w * map->strides[2] + v * map->strides[3];
    for (unsigned row = 0; row < map->box[1]; ++row)
        for (unsigned i = 0; i < map->box[0]; ++i, n_bytes += map->size) {
            const bool is_inside = is_matrix && x + i < map->extents[0] && y + row < map->extents[1];
            unsigned char *place = dynamic_shared_mem + swizzled(to + n_bytes);
            const size_t element = start + (y + row) * map->strides[0] + x + i;
            if (is_inside) std::memcpy(place, (const char *)map->first + element * map->size, map->size);
            else std::memset(place, 0, map->size);
        }
    barrier_at(at).n_bytes -= n_bytes;
    end_phase_if_complete(barrier_at(at));
}
static void fetch_box_4d(unsigned to, const TensorMap *map, unsigned x, unsigned y, unsigned z, unsigned w, unsigned at) {
    fetch_box_5d(to, map, x, y, z, w, 0, at);
}
static void fetch_box(unsigned to, const TensorMap *map, unsigned x, unsigned y, unsigned z, unsigned at) {
    fetch_box_5d(to, map, x, y, z, 0, 0, at);
}

// A warpgroup copies the box: each thread 16 bytes of every 16th row.
static void copy_box(unsigned to, const TensorMap &map, unsigned x, unsigned y, unsigned z, unsigned w, unsigned v) {
    const unsigned thread = threadIdx.x % 128, n = 16 / map.size;
    const bool is_matrix = z < map.extents[2] && w < map.extents[3] && v < map.extents[4];
    const size_t start = z * map.strides[1] + w * map.strides[2] + v * map.strides[3];
    for (unsigned row = thread / 8; row < map.box[1]; row += 16)
        for (unsigned i = thread % 8 * n; i < thread % 8 * n + n; ++i) {
            const bool is_inside = is_matrix && x + i < map.extents[0] && y + row < map.extents[1];
            unsigned char *place = dynamic_shared_mem + swizzled(to + row * 128 + i * map.size);
            const size_t element = start + (y + row) * map.strides[0] + x + i;
            if (is_inside) std::memcpy(place, (const char *)map.first + element * map.size, map.size);
            else std::memset(place, 0, map.size);
        }
}
static void arrive_after_copies(unsigned at) { arrive(at); }

// The barriers of turns, each of two warpgroups. All threads of a phase go on in the round after its last arrival, so
// lanes of a warp stay in step.
struct Turn { unsigned n_arrived, n_phases, open_round; };
static Turn turns[16];
static void publish_barriers() { std::memset(turns, 0, sizeof turns); }
static void give_turn(unsigned group) {
    Turn &of = turns[1 + group];
    if (++of.n_arrived < 256) return;
    of = {0, of.n_phases + 1, this_round + 1};
}
static void await_turn(unsigned group) {
    const unsigned before = turns[1 + group].n_phases;
    give_turn(group);
    do turn(); while (turns[1 + group].n_phases == before || this_round < turns[1 + group].open_round);
}

struct uint4 { unsigned x, y, z, w; };

static void store_word(unsigned at, unsigned word) { std::memcpy(dynamic_shared_mem + at, &word, 4); }
static void publish_shared() {}
template <int N> static void give_registers() {}
template <int N> static void take_registers() {}
static float __int_as_float(int word) {
    float x;
    std::memcpy(&x, &word, 4);
    return x;
}
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

// The words of a left matrix whose lines lie across memory, for two rows of each thread.
static void load_left(unsigned *x, unsigned long long a) {
    const Matrix left = matrix_of(a);
    const unsigned thread = threadIdx.x % 128, row = thread / 32 * 16 + thread % 32 / 4;
    for (unsigned i = 0; i < 4; ++i) {
        const unsigned place = left.start + (row + i % 2 * 8) * 128 + i / 2 * 16 + thread % 4 * 4;
        std::memcpy(&x[i], dynamic_shared_mem + swizzled(place), 4);
    }
}

// The left matrix is in registers: of each eight neighbours along the contracted axis, a thread has two, in its two rows.
template <class T, int COLUMNS, bool B_ALONG>
static void reference_product_of_words(float (&sum)[COLUMNS / 2], const unsigned *a, unsigned long long b, int adds) {
    const Matrix right = matrix_of(b);
    const unsigned lane = threadIdx.x % 4;
    unsigned words[4][4];
    for (unsigned i = 0; i < 4; ++i) {
        words[lane][i] = a[i];
        for (unsigned other = 1; other < 4; ++other) words[lane ^ other][i] = __shfl_xor_sync(-1, a[i], other);
    }
    const auto left = [&](unsigned half, unsigned k) {
        T pair[2];
        std::memcpy(pair, &words[k % 8 / 2][k / 8 * 2 + half], 4);
        return (float)pair[k % 2];
    };
    for (unsigned i = 0; i < COLUMNS / 2; ++i) {
        const unsigned column = i / 4 * 8 + lane * 2 + i % 2;
        double total = adds ? sum[i] : 0.0;
        for (unsigned k = 0; k < 16; ++k)
            total += (double)left(i / 2 % 2, k) * matrix_element<T, B_ALONG>(right, column, k);
        sum[i] = (float)total;
    }
}

template <class T> static unsigned pair_of(T low, T high) {
    const T pair[2] = {low, high};
    unsigned word;
    std::memcpy(&word, pair, 4);
    return word;
}
static unsigned pack_bf16(float low, float high) { return pair_of(__nv_bfloat16(low), __nv_bfloat16(high)); }
#ifdef __FLT16_MANT_DIG__
static unsigned pack_f16(float low, float high) { return pair_of((__half)low, (__half)high); }
#endif

static void gather_columns(float (&x)[8]) {
    const unsigned lane = threadIdx.x % 4;
    for (unsigned distance = 1; distance < 4; ++distance)
        for (unsigned c = 0; c < 2; ++c) {
            // The pair for lane `lane ^ distance` lies at that lane's number.
            const float got = __shfl_xor_sync(-1, x[2 * (lane ^ distance) + c], distance);
            x[2 * (lane ^ distance) + c] = got;
        }
}
