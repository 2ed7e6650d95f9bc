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
    uint32 scalars_uint32[2];uint32 static_meta[4];
};


__device__ __forceinline__ void await_kernel_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
asm volatile("griddepcontrol.wait;" ::: "memory");
asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

extern "C" __global__ void __launch_bounds__(128)scan (
    float* buffer_0, float* buffer_1, const __grid_constant__ info_st info
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
float l_mut_2;
const uint32 l_1 = idxGlobal * uint32(40);
l_mut_2 = float(0.0);

for (uint32 l_mut_3 = uint32(0); l_mut_3 < uint32(40); ++l_mut_3) {
const uint32 l_4 = l_1 + l_mut_3;
const float l_5 = buffer_0[l_4];
const float l_6 = l_mut_2 + l_5;
l_mut_2 = l_6;
buffer_1[l_4] = l_6;
}
}

}