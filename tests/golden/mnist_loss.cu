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
    uint32 scalars_uint32[2];uint32 static_meta[14];
};


__device__ __forceinline__ void await_kernel_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
asm volatile("griddepcontrol.wait;" ::: "memory");
asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

extern "C" __global__ void __launch_bounds__(32)row (
    const float* __restrict__ buffer_0, float* buffer_1, int32* buffer_2, int32* buffer_3, float* buffer_4, float* buffer_5, int32* buffer_6, const __grid_constant__ info_st info
) {
await_kernel_before();
uint32 blockIdxGlobal = (blockIdx.z * gridDim.y * gridDim.x) + (blockIdx.y * gridDim.x) + blockIdx.x;
uint32 warpSizeChecked = min(warpSize, blockDim.x * blockDim.y * blockDim.z);
const uint32 l_0 = threadIdx.x % uint32(8);
const uint32 l_1 = threadIdx.x / uint32(8);
const uint32 l_2 = blockIdxGlobal * uint32(4);
const uint32 l_3 = l_2 + l_1;
const bool l_4 = l_3 < info.scalars_uint32[0];
const uint32 l_5 = info.scalars_uint32[0] - uint32(1);
const uint32 l_6 = (l_4) ? l_3 : l_5;
const uint32 l_7 = l_6 * uint32(128);
const uint32 l_8 = l_6 * uint32(32);
const uint32 l_9 = l_0 * uint32(4);
const uint32 l_10 = l_8 + l_0;
const uint32 l_11 = l_9 + uint32(1);
const uint32 l_12 = l_9 + uint32(2);
const uint32 l_13 = l_9 + uint32(3);
const uint32 l_14 = l_7 + l_9;
const uint32 l_15 = l_14 + uint32(1);
const uint32 l_16 = l_14 + uint32(2);
const uint32 l_17 = l_14 + uint32(3);
const uint32 l_18 = l_0 + uint32(8);
const uint32 l_19 = l_18 * uint32(4);
const uint32 l_20 = l_8 + l_0;
const uint32 l_21 = l_20 + uint32(8);
const uint32 l_22 = l_19 + uint32(1);
const uint32 l_23 = l_19 + uint32(2);
const uint32 l_24 = l_19 + uint32(3);
const uint32 l_25 = l_7 + l_19;
const uint32 l_26 = l_25 + uint32(1);
const uint32 l_27 = l_25 + uint32(2);
const uint32 l_28 = l_25 + uint32(3);
const uint32 l_29 = l_0 + uint32(16);
const uint32 l_30 = l_29 * uint32(4);
const uint32 l_31 = l_8 + l_0;
const uint32 l_32 = l_31 + uint32(16);
const uint32 l_33 = l_30 + uint32(1);
const uint32 l_34 = l_30 + uint32(2);
const uint32 l_35 = l_30 + uint32(3);
const uint32 l_36 = l_7 + l_30;
const uint32 l_37 = l_36 + uint32(1);
const uint32 l_38 = l_36 + uint32(2);
const uint32 l_39 = l_36 + uint32(3);
const uint32 l_40 = l_0 + uint32(24);
const uint32 l_41 = l_40 * uint32(4);
const uint32 l_42 = l_8 + l_0;
const uint32 l_43 = l_42 + uint32(24);
const uint32 l_44 = l_41 + uint32(1);
const uint32 l_45 = l_41 + uint32(2);
const uint32 l_46 = l_41 + uint32(3);
const uint32 l_47 = l_7 + l_41;
const uint32 l_48 = l_47 + uint32(1);
const uint32 l_49 = l_47 + uint32(2);
const uint32 l_50 = l_47 + uint32(3);
const float l_51 = (bool(false)) ? float(1.0) : float(128.0);
const float l_52 = buffer_1[uint32(0)];
const uint32 l_53 = uint32(2139095040);
const float l_54 = reinterpret_cast<float const&>(l_53);
const int32 l_55 = buffer_2[uint32(0)];
const bool l_56 = l_55 == int32(0);
const int32 l_57 = buffer_3[uint32(0)];
const int32 l_58 = l_57 + int32(1);
 const float_4 *_tmp_0 = reinterpret_cast< const float_4*>(buffer_0);
const float_4 l_59 = _tmp_0[l_10];
const float l_60 = l_59.i_0;
const float l_61 = l_59.i_1;
const float l_62 = l_59.i_2;
const float l_63 = l_59.i_3;
 const float_4 *_tmp_1 = reinterpret_cast< const float_4*>(buffer_0);
const float_4 l_64 = _tmp_1[l_21];
const float l_65 = l_64.i_0;
const float l_66 = l_64.i_1;
const float l_67 = l_64.i_2;
const float l_68 = l_64.i_3;
 const float_4 *_tmp_2 = reinterpret_cast< const float_4*>(buffer_0);
const float_4 l_69 = _tmp_2[l_32];
const float l_70 = l_69.i_0;
const float l_71 = l_69.i_1;
const float l_72 = l_69.i_2;
const float l_73 = l_69.i_3;
 const float_4 *_tmp_3 = reinterpret_cast< const float_4*>(buffer_0);
const float_4 l_74 = _tmp_3[l_43];
const float l_75 = l_74.i_0;
const float l_76 = l_74.i_1;
const float l_77 = l_74.i_2;
const float l_78 = l_74.i_3;
const float l_79 = l_60 + l_61;
const float l_80 = l_79 + l_62;
const float l_81 = l_80 + l_63;
const float l_82 = l_81 + l_65;
const float l_83 = l_82 + l_66;
const float l_84 = l_83 + l_67;
const float l_85 = l_84 + l_68;
const float l_86 = l_85 + l_70;
const float l_87 = l_86 + l_71;
const float l_88 = l_87 + l_72;
const float l_89 = l_88 + l_73;
const float l_90 = l_89 + l_75;
const float l_91 = l_90 + l_76;
const float l_92 = l_91 + l_77;
const float l_93 = l_92 + l_78;
const float l_94 = { __shfl_xor_sync(-1, l_93, uint32(4)) };
const float l_95 = l_93 + l_94;
const float l_96 = { __shfl_xor_sync(-1, l_95, uint32(2)) };
const float l_97 = l_95 + l_96;
const float l_98 = { __shfl_xor_sync(-1, l_97, uint32(1)) };
const float l_99 = l_97 + l_98;
const float l_100 = l_99 / l_51;
const float l_101 = l_100 * float(128.0);
const float l_102 = l_52 + l_101;
const bool l_103 = l_100 != l_100;
const float l_104 = abs(l_100);
const bool l_105 = l_104 == l_54;
const bool l_106 = l_103 || l_105;
const bool l_107 = l_106 && l_56;
const int32 l_108 = (l_107) ? l_58 : l_55;
const bool l_109 = l_0 == uint32(0);
const bool l_110 = l_4 && l_109;
if (l_110) {
buffer_4[uint32(0)] = l_100;
buffer_5[uint32(0)] = l_102;
buffer_6[uint32(0)] = l_108;
}

}