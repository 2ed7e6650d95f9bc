#include <cuda_runtime.h>
typedef unsigned int uint;
typedef unsigned char uint8;
typedef unsigned short uint16;
typedef unsigned int uint32;
typedef unsigned long long int uint64;
typedef signed char int8;
typedef signed short int16;
typedef signed int int32;
typedef signed long long int int64;

struct info_st {
    uint32 scalars_uint32[2];uint32 static_meta[2];
};


extern "C" __global__ void __launch_bounds__(256)map (
    float* buffer_0, const __grid_constant__ info_st info
) {
uint3 absoluteIdx = make_uint3(
    blockIdx.x * blockDim.x + threadIdx.x,
    blockIdx.y * blockDim.y + threadIdx.y,
    blockIdx.z * blockDim.z + threadIdx.z
);
uint32 idxGlobal = (
                absoluteIdx.z * gridDim.x * blockDim.x * gridDim.y * blockDim.y)
                + (absoluteIdx.y * gridDim.x * blockDim.x)
                + absoluteIdx.x;
const bool l_0 = idxGlobal < info.scalars_uint32[0];
if (l_0) {
buffer_0[idxGlobal] = float(0.0);
}

}
// ---- The next launch.

#include <cuda_runtime.h>
typedef unsigned int uint;
typedef unsigned char uint8;
typedef unsigned short uint16;
typedef unsigned int uint32;
typedef unsigned long long int uint64;
typedef signed char int8;
typedef signed short int16;
typedef signed int int32;
typedef signed long long int int64;

struct __align__(16) float_4 {
    float i_0;
    float i_1;
    float i_2;
    float i_3;
};
struct info_st {
    uint32 scalars_uint32[2];uint32 static_meta[8];
};


#ifdef __CUDA_ARCH__
__device__ __forceinline__ void add_four(float *place, float a, float b, float c, float d) {
asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" :: "l"(place), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
}
#endif

extern "C" __global__ void __launch_bounds__(256)scatter (
    const int32* __restrict__ buffer_0, const float* __restrict__ buffer_1, float* buffer_2, uint32* buffer_3, const __grid_constant__ info_st info
) {
uint3 absoluteIdx = make_uint3(
    blockIdx.x * blockDim.x + threadIdx.x,
    blockIdx.y * blockDim.y + threadIdx.y,
    blockIdx.z * blockDim.z + threadIdx.z
);
uint32 idxGlobal = (
                absoluteIdx.z * gridDim.x * blockDim.x * gridDim.y * blockDim.y)
                + (absoluteIdx.y * gridDim.x * blockDim.x)
                + absoluteIdx.x;
const uint32 l_0 = idxGlobal * uint32(4);
const bool l_1 = l_0 < info.scalars_uint32[0];
if (l_1) {
const uint32 l_2 = l_0 / uint32(40);
const uint32 l_3 = l_0 % uint32(40);
const int32 l_4 = buffer_0[l_2];
const bool l_5 = l_4 >= int32(10);
const bool l_6 = l_4 < int32(0);
const bool l_7 = l_6 || l_5;
if (l_7) {
uint32* l_8 = &buffer_3[uint32(0)];
const uint32 l_9 = atomicCAS(l_8, uint32(0), uint32(63));
const bool l_10 = l_9 == uint32(0);
if (l_10) {
const uint32 l_11 = uint32(l_4);
const bool l_12 = l_4 < int32(0);
const uint32 l_13 = (l_12) ? uint32(4294967295) : uint32(0);
uint32* l_14 = &buffer_3[uint32(1)];
const uint32 l_15 = atomicExch(l_14, l_11);
uint32* l_16 = &buffer_3[uint32(2)];
const uint32 l_17 = atomicExch(l_16, l_13);
uint32* l_18 = &buffer_3[uint32(3)];
const uint32 l_19 = atomicExch(l_18, l_2);
uint32* l_20 = &buffer_3[uint32(4)];
const uint32 l_21 = atomicExch(l_20, uint32(0));
}
}
const int32 l_22 = (l_7) ? int32(0) : l_4;
const bool l_23 = l_22 >= int32(0);
const bool l_24 = l_22 < int32(10);
const bool l_25 = l_23 && l_24;
if (l_25) {
const uint32 l_26 = l_0 + uint32(1);
const uint32 l_27 = l_0 + uint32(2);
const uint32 l_28 = l_0 + uint32(3);
const uint32 l_29 = l_0 / uint32(40);
const uint32 l_30 = l_0 / uint32(4);
 const float_4 *_tmp_0 = reinterpret_cast< const float_4*>(buffer_1);
const float_4 l_31 = _tmp_0[l_30];
const float l_32 = l_31.i_0;
const float l_33 = l_31.i_1;
const float l_34 = l_31.i_2;
const float l_35 = l_31.i_3;
const uint32 l_36 = l_2 / uint32(6);
const uint32 l_37 = uint32(l_22);
const uint32 l_38 = l_36 * uint32(10);
const uint32 l_39 = l_38 + l_37;
const uint32 l_40 = l_39 * uint32(40);
const uint32 l_41 = l_40 + l_3;
add_four(&buffer_2[l_41], l_32, l_33, l_34, l_35);
}
}

}