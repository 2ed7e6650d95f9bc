// Stands in for the CUDA headers so that a C++ compiler can run a kernel's text on one processor: the threads of a
// block are fibers that take turns, and every exchange between threads is a turn.
#pragma once
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <ucontext.h>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__
#define __align__(n) __attribute__((aligned(n)))

struct uint3 { unsigned x, y, z; };
static uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
static uint3 threadIdx, blockIdx, blockDim, gridDim;
static const unsigned warpSize = 32;

static std::vector<ucontext_t> fibers;
static ucontext_t scheduler;
static void turn() {
    const uint3 self = threadIdx;
    swapcontext(&fibers[self.x], &scheduler);
    threadIdx = self;
}

// All threads of a block go on in the same round, the one after the last of them has come, however many exchanges the
// planes made before: lanes of a plane stay in step.
static unsigned n_arrived, this_round, open_round;
static void __syncthreads() {
    const unsigned before = open_round;
    if (++n_arrived == blockDim.x) {
        n_arrived = 0;
        open_round = this_round + 1;
    }
    do turn(); while (open_round == before || this_round < open_round);
}

// Lanes are in step, so one turn brings all of them here.
static void __syncwarp() { turn(); }

static unsigned long long mailbox[1024];
template <class T> static T __shfl_xor_sync(int, T value, unsigned mask) {
    std::memcpy(&mailbox[threadIdx.x], &value, sizeof(T));
    turn();
    T other;
    std::memcpy(&other, &mailbox[threadIdx.x ^ mask], sizeof(T));
    turn();
    return other;
}

template <class T> static T atomicAdd(T *place, T value) {
    const T before = *place;
    *place += value;
    return before;
}
static unsigned atomicAnd(unsigned *place, unsigned value) {
    const unsigned before = *place;
    *place &= value;
    return before;
}
static unsigned atomicOr(unsigned *place, unsigned value) {
    const unsigned before = *place;
    *place |= value;
    return before;
}
static unsigned atomicMax(unsigned *place, unsigned value) {
    const unsigned before = *place;
    if (before < value) *place = value;
    return before;
}
static unsigned atomicMin(unsigned *place, unsigned value) {
    const unsigned before = *place;
    if (value < before) *place = value;
    return before;
}
template <class T> static T atomicExch(T *place, T value) {
    const T before = *place;
    *place = value;
    return before;
}
static int __popc(unsigned x) { return __builtin_popcount(x); }
static unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a * b) >> 32); }

using std::abs; using std::ceil; using std::cos; using std::erf; using std::exp; using std::floor; using std::fma;
using std::log; using std::log1p; using std::rint; using std::sin; using std::sqrt; using std::tanh; using std::trunc;
static float largest(float a, float b) { return a != a || a > b ? a : b; }
static float smallest(float a, float b) { return a != a || a < b ? a : b; }
static float rough_exp2(float x) { return exp2f(x) < 1.17549435e-38f ? 0.0f : exp2f(x); }
static float rough_log2(float x) { return log2f(x); }
static void add_four(float *place, float a, float b, float c, float d) {
    place[0] += a; place[1] += b; place[2] += c; place[3] += d;
}
static void copy_async(void *to, const void *from) { std::memcpy(to, from, 16); }
static void await_copies() {}
static float rsqrt(float x) { return 1.0f / std::sqrt(x); }
// As on the device: a number wins over NaN.
static float max(float a, float b) { return fmaxf(a, b); }
static float min(float a, float b) { return fminf(a, b); }
template <class T> static T max(T a, T b) { return a > b ? a : b; }
template <class T> static T min(T a, T b) { return a < b ? a : b; }

struct __nv_bfloat16 {
    __nv_bfloat16() = default;
    unsigned short bits;
    explicit __nv_bfloat16(float x) {
        unsigned word;
        std::memcpy(&word, &x, 4);
        bits = (unsigned short)((word + 0x7fff + ((word >> 16) & 1)) >> 16);
    }
    explicit operator float() const {
        const unsigned word = (unsigned)bits << 16;
        float x;
        std::memcpy(&x, &word, 4);
        return x;
    }
};

struct __nv_bfloat162 { __nv_bfloat16 x, y; };

#ifdef __FLT16_MANT_DIG__
typedef _Float16 __half;
struct __half2 { __half x, y; };
#endif

alignas(1024) unsigned char dynamic_shared_mem[1 << 18];

#include "tensor_cores.h"

// An argument of any pointer type.
struct Pointer {
    void *p;
    template <class T> operator T *() const { return (T *)p; }
};

static void (*body)();

// Runs `body` for every thread of `n_blocks` blocks.
static void launch(unsigned n_blocks, unsigned n_threads) {
    gridDim = {n_blocks, 1, 1};
    blockDim = {n_threads, 1, 1};
    std::vector<std::vector<char>> stacks(n_threads, std::vector<char>(1 << 16));
    for (unsigned block = 0; block < n_blocks; ++block) {
        blockIdx = {block, 0, 0};
        std::vector<bool> done(n_threads, false);
        static std::vector<bool> *done_now;
        done_now = &done;
        fibers.assign(n_threads, ucontext_t{});
        for (unsigned t = 0; t < n_threads; ++t) {
            getcontext(&fibers[t]);
            fibers[t].uc_stack.ss_sp = stacks[t].data();
            fibers[t].uc_stack.ss_size = stacks[t].size();
            fibers[t].uc_link = &scheduler;
            makecontext(&fibers[t], +[] { const unsigned t = threadIdx.x; body(); (*done_now)[t] = true; }, 0);
        }
        for (unsigned n_done = 0; n_done < n_threads;) {
            n_done = 0;
            ++this_round;
            for (unsigned t = 0; t < n_threads; ++t) {
                if (!done[t]) {
                    threadIdx = {t, 0, 0};
                    swapcontext(&scheduler, &fibers[t]);
                }
                n_done += done[t];
            }
        }
    }
}

// Buffers come in and go out as files named by number.
static void *read_buffer(const char *name, size_t bytes) {
    void *memory = std::calloc(bytes + 64, 1);
    FILE *file = std::fopen(name, "rb");
    if (!file || std::fread(memory, 1, bytes, file) != bytes) std::abort();
    std::fclose(file);
    return memory;
}
static void write_buffer(const char *name, const void *memory, size_t bytes) {
    FILE *file = std::fopen(name, "wb");
    if (!file || std::fwrite(memory, 1, bytes, file) != bytes) std::abort();
    std::fclose(file);
}
