// Stands in for the CUDA headers so that a C++ compiler can run a kernel's text on one processor: the threads of a
// block are fibers that take turns, and every exchange between threads is a turn. What no kernel changes is compiled
// once, in host.cpp.
#pragma once
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__
#define __align__(n) __attribute__((aligned(n)))

struct uint3 { unsigned x, y, z; };
static uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
extern uint3 threadIdx, blockIdx, blockDim, gridDim;
static const unsigned warpSize = 32;

// Lets the other threads of the block go on.
void turn();

// The number of the round in which each thread of a block has one turn.
extern unsigned this_round;
void __syncthreads();

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

alignas(1024) extern unsigned char dynamic_shared_mem[1 << 18];

#include "tensor_cores.h"

// An argument of any pointer type.
struct Pointer {
    void *p;
    template <class T> operator T *() const { return (T *)p; }
};

// The call of the kernel, with its arguments.
extern void (*body)();
// Runs `body` for every thread of `n_blocks` blocks.
void launch(unsigned n_blocks, unsigned n_threads);

// Buffers come in and go out as files named by number.
void *read_buffer(const char *name, size_t bytes);
void write_buffer(const char *name, const void *memory, size_t bytes);
