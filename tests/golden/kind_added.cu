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


__device__ __forceinline__ void await_kernel_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
asm volatile("griddepcontrol.wait;" ::: "memory");
asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

extern "C" __global__ void __launch_bounds__(256)map (
    float* buffer_0, const __grid_constant__ info_st info
) {
await_kernel_before();
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

__device__ __forceinline__ void await_kernel_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
asm volatile("griddepcontrol.wait;" ::: "memory");
asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

extern "C" __global__ void __launch_bounds__(256)scatter (
    const int32* __restrict__ buffer_0, const float* __restrict__ buffer_1, float* buffer_2, uint32* buffer_3, const __grid_constant__ info_st info
) {
await_kernel_before();
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
uint32* l_8 = &buffer_3[uint32(1)];
const uint32 l_9 = atomicAdd(l_8, uint32(0));
const bool l_10 = l_9 == uint32(0);
if (l_10) {
uint32* l_11 = &buffer_3[uint32(0)];
const uint32 l_12 = atomicExch(l_11, uint32(1));
uint32* l_13 = &buffer_3[uint32(2)];
const uint32 l_14 = atomicMax(l_13, uint32(4294967233));
const bool l_15 = uint32(4294967233) >= l_14;
if (l_15) {
const bool l_16 = l_2 < uint32(4294967294);
const uint32 l_17 = (l_16) ? l_2 : uint32(4294967294);
const uint32 l_18 = ~l_17;
uint32* l_19 = &buffer_3[uint32(1346)];
const uint32 l_20 = atomicMax(l_19, l_18);
const bool l_21 = l_20 < l_18;
if (l_21) {
uint32* l_22 = &buffer_3[uint32(3)];
const uint32 l_23 = atomicAdd(l_22, uint32(1));
const uint32 l_24 = l_23 % uint32(256);
const uint32 l_25 = l_24 * uint32(5);
const uint32 l_26 = uint32(l_4);
const bool l_27 = l_4 < int32(0);
const uint32 l_28 = (l_27) ? uint32(4294967295) : uint32(0);
const uint32 l_29 = l_25 + uint32(4);
uint32* l_30 = &buffer_3[l_29];
const uint32 l_31 = atomicExch(l_30, uint32(62));
const uint32 l_32 = l_25 + uint32(5);
uint32* l_33 = &buffer_3[l_32];
const uint32 l_34 = atomicExch(l_33, l_26);
const uint32 l_35 = l_25 + uint32(6);
uint32* l_36 = &buffer_3[l_35];
const uint32 l_37 = atomicExch(l_36, l_28);
const uint32 l_38 = l_25 + uint32(7);
uint32* l_39 = &buffer_3[l_38];
const uint32 l_40 = atomicExch(l_39, l_2);
const uint32 l_41 = l_25 + uint32(8);
uint32* l_42 = &buffer_3[l_41];
const uint32 l_43 = atomicExch(l_42, uint32(0));
}
}
}
}
const int32 l_44 = (l_7) ? int32(0) : l_4;
const bool l_45 = l_44 >= int32(0);
const bool l_46 = l_44 < int32(10);
const bool l_47 = l_45 && l_46;
if (l_47) {
const uint32 l_48 = l_0 + uint32(1);
const uint32 l_49 = l_0 + uint32(2);
const uint32 l_50 = l_0 + uint32(3);
const uint32 l_51 = l_0 / uint32(40);
const uint32 l_52 = l_0 / uint32(4);
 const float_4 *_tmp_0 = reinterpret_cast< const float_4*>(buffer_1);
const float_4 l_53 = _tmp_0[l_52];
const float l_54 = l_53.i_0;
const float l_55 = l_53.i_1;
const float l_56 = l_53.i_2;
const float l_57 = l_53.i_3;
const uint32 l_58 = l_2 / uint32(6);
const uint32 l_59 = uint32(l_44);
const uint32 l_60 = l_58 * uint32(10);
const uint32 l_61 = l_60 + l_59;
const uint32 l_62 = l_61 * uint32(40);
const uint32 l_63 = l_62 + l_3;
add_four(&buffer_2[l_63], l_54, l_55, l_56, l_57);
}
}

}