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
struct __align__(4) uint8_4 {
    uint8 i_0;
    uint8 i_1;
    uint8 i_2;
    uint8 i_3;
};
struct info_st {
    uint32 scalars_uint32[2];uint32 static_meta[8];
};


__device__ __forceinline__ void await_kernel_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
asm volatile("griddepcontrol.wait;" ::: "memory");
asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

extern "C" __global__ void __launch_bounds__(128)row (
    const int32* __restrict__ buffer_0, const int32* __restrict__ buffer_1, const uint8* __restrict__ buffer_2, float* buffer_3, const __grid_constant__ info_st info
) {
await_kernel_before();
uint32 blockIdxGlobal = (blockIdx.z * gridDim.y * gridDim.x) + (blockIdx.y * gridDim.x) + blockIdx.x;
const uint32 l_0 = blockIdxGlobal * uint32(784);
const uint32 l_1 = blockIdxGlobal * uint32(196);
const uint32 l_2 = threadIdx.x * uint32(4);
const uint32 l_3 = l_1 + threadIdx.x;
const uint32 l_4 = l_2 + uint32(1);
const uint32 l_5 = l_2 + uint32(2);
const uint32 l_6 = l_2 + uint32(3);
const uint32 l_7 = l_0 + l_2;
const uint32 l_8 = l_7 + uint32(1);
const uint32 l_9 = l_7 + uint32(2);
const uint32 l_10 = l_7 + uint32(3);
const uint32 l_11 = threadIdx.x + uint32(128);
const uint32 l_12 = l_11 * uint32(4);
const uint32 l_13 = l_1 + threadIdx.x;
const uint32 l_14 = l_13 + uint32(128);
const bool l_15 = l_12 < uint32(784);
const uint32 l_16 = (l_15) ? l_14 : l_1;
const uint32 l_17 = (l_15) ? l_12 : uint32(0);
const uint32 l_18 = l_17 + uint32(1);
const uint32 l_19 = l_17 + uint32(2);
const uint32 l_20 = l_17 + uint32(3);
const uint32 l_21 = l_0 + l_17;
const uint32 l_22 = l_21 + uint32(1);
const uint32 l_23 = l_21 + uint32(2);
const uint32 l_24 = l_21 + uint32(3);
const int32 l_25 = buffer_0[uint32(0)];
const int32 l_26 = l_25 % int32(469);
const int32 l_27 = l_26 * int32(128);
const int32 l_28 = int32(blockIdxGlobal);
const int32 l_29 = l_27 + l_28;
const uint32 l_30 = uint32(l_29);
const int32 l_31 = buffer_1[l_30];
const uint32 l_32 = uint32(l_31);
const uint32 l_33 = l_32 * uint32(784);
const uint32 l_34 = l_2 + l_33;
const uint32 l_35 = l_34 / uint32(4);
 const uint8_4 *_tmp_0 = reinterpret_cast< const uint8_4*>(buffer_2);
const uint8_4 l_36 = _tmp_0[l_35];
const uint8 l_37 = l_36.i_0;
const uint8 l_38 = l_36.i_1;
const uint8 l_39 = l_36.i_2;
const uint8 l_40 = l_36.i_3;
const float l_41 = float(l_37);
const float l_42 = float(l_38);
const float l_43 = float(l_39);
const float l_44 = float(l_40);
const float l_45 = l_41 * float(0.003921568859368563);
const float l_46 = l_42 * float(0.003921568859368563);
const float l_47 = l_43 * float(0.003921568859368563);
const float l_48 = l_44 * float(0.003921568859368563);
const uint32 l_49 = uint32(l_31);
const uint32 l_50 = l_49 * uint32(784);
const uint32 l_51 = l_17 + l_50;
const uint32 l_52 = l_51 / uint32(4);
 const uint8_4 *_tmp_1 = reinterpret_cast< const uint8_4*>(buffer_2);
const uint8_4 l_53 = _tmp_1[l_52];
const uint8 l_54 = l_53.i_0;
const uint8 l_55 = l_53.i_1;
const uint8 l_56 = l_53.i_2;
const uint8 l_57 = l_53.i_3;
const float l_58 = float(l_54);
const float l_59 = float(l_55);
const float l_60 = float(l_56);
const float l_61 = float(l_57);
const float l_62 = l_58 * float(0.003921568859368563);
const float l_63 = l_59 * float(0.003921568859368563);
const float l_64 = l_60 * float(0.003921568859368563);
const float l_65 = l_61 * float(0.003921568859368563);
const float_4 l_66 = float_4{l_45,l_46,l_47,l_48};
 float_4 *_tmp_2 = reinterpret_cast< float_4*>(buffer_3);
_tmp_2[l_3] = reinterpret_cast< float_4 const&>(l_66);
if (l_15) {
const float_4 l_67 = float_4{l_62,l_63,l_64,l_65};
 float_4 *_tmp_3 = reinterpret_cast< float_4*>(buffer_3);
_tmp_3[l_16] = reinterpret_cast< float_4 const&>(l_67);
}

}