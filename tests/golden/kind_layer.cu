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
__device__ __forceinline__ float largest(float a, float b) {
float x;
asm("max.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(a), "f"(b));
return x;
}
#endif

__device__ __forceinline__ void await_kernel_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
asm volatile("griddepcontrol.wait;" ::: "memory");
asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

extern "C" __global__ void __launch_bounds__(32)row (
    const float* __restrict__ buffer_0, const float* __restrict__ buffer_1, const float* __restrict__ buffer_2, float* buffer_3, const __grid_constant__ info_st info
) {
await_kernel_before();
uint32 blockIdxGlobal = (blockIdx.z * gridDim.y * gridDim.x) + (blockIdx.y * gridDim.x) + blockIdx.x;
uint32 warpSizeChecked = min(warpSize, blockDim.x * blockDim.y * blockDim.z);
const uint32 l_0 = threadIdx.x % uint32(4);
const uint32 l_1 = threadIdx.x / uint32(4);
const uint32 l_2 = blockIdxGlobal * uint32(8);
const uint32 l_3 = l_2 + l_1;
const bool l_4 = l_3 < info.scalars_uint32[0];
const uint32 l_5 = info.scalars_uint32[0] - uint32(1);
const uint32 l_6 = (l_4) ? l_3 : l_5;
const uint32 l_7 = l_6 * uint32(40);
const uint32 l_8 = l_6 * uint32(10);
const uint32 l_9 = l_0 * uint32(4);
const uint32 l_10 = l_8 + l_0;
const uint32 l_11 = l_9 + uint32(1);
const uint32 l_12 = l_9 + uint32(2);
const uint32 l_13 = l_9 + uint32(3);
const uint32 l_14 = l_7 + l_9;
const uint32 l_15 = l_14 + uint32(1);
const uint32 l_16 = l_14 + uint32(2);
const uint32 l_17 = l_14 + uint32(3);
const uint32 l_18 = l_0 + uint32(4);
const uint32 l_19 = l_18 * uint32(4);
const uint32 l_20 = l_8 + l_0;
const uint32 l_21 = l_20 + uint32(4);
const uint32 l_22 = l_19 + uint32(1);
const uint32 l_23 = l_19 + uint32(2);
const uint32 l_24 = l_19 + uint32(3);
const uint32 l_25 = l_7 + l_19;
const uint32 l_26 = l_25 + uint32(1);
const uint32 l_27 = l_25 + uint32(2);
const uint32 l_28 = l_25 + uint32(3);
const uint32 l_29 = l_0 + uint32(8);
const uint32 l_30 = l_29 * uint32(4);
const uint32 l_31 = l_8 + l_0;
const uint32 l_32 = l_31 + uint32(8);
const bool l_33 = l_30 < uint32(40);
const uint32 l_34 = (l_33) ? l_32 : l_8;
const uint32 l_35 = (l_33) ? l_30 : uint32(0);
const uint32 l_36 = l_35 + uint32(1);
const uint32 l_37 = l_35 + uint32(2);
const uint32 l_38 = l_35 + uint32(3);
const uint32 l_39 = l_7 + l_35;
const uint32 l_40 = l_39 + uint32(1);
const uint32 l_41 = l_39 + uint32(2);
const uint32 l_42 = l_39 + uint32(3);
const uint32 l_43 = l_6 % uint32(24);
const float l_44 = buffer_2[l_43];
const uint32 l_45 = l_6 / uint32(24);
const uint32 l_46 = l_45 * uint32(40);
const uint32 l_47 = l_9 + l_46;
const uint32 l_48 = l_47 / uint32(4);
 const float_4 *_tmp_0 = reinterpret_cast< const float_4*>(buffer_0);
const float_4 l_49 = _tmp_0[l_48];
const float l_50 = l_49.i_0;
const float l_51 = l_49.i_1;
const float l_52 = l_49.i_2;
const float l_53 = l_49.i_3;
const uint32 l_54 = l_6 % uint32(24);
const uint32 l_55 = l_9 * uint32(24);
const uint32 l_56 = l_55 + l_54;
const float l_57 = buffer_1[l_56];
const uint32 l_58 = l_6 % uint32(24);
const uint32 l_59 = l_11 * uint32(24);
const uint32 l_60 = l_59 + l_58;
const float l_61 = buffer_1[l_60];
const uint32 l_62 = l_6 % uint32(24);
const uint32 l_63 = l_12 * uint32(24);
const uint32 l_64 = l_63 + l_62;
const float l_65 = buffer_1[l_64];
const uint32 l_66 = l_6 % uint32(24);
const uint32 l_67 = l_13 * uint32(24);
const uint32 l_68 = l_67 + l_66;
const float l_69 = buffer_1[l_68];
const float l_70 = l_50 * l_57;
const float l_71 = l_51 * l_61;
const float l_72 = l_52 * l_65;
const float l_73 = l_53 * l_69;
const uint32 l_74 = l_6 / uint32(24);
const uint32 l_75 = l_74 * uint32(40);
const uint32 l_76 = l_19 + l_75;
const uint32 l_77 = l_76 / uint32(4);
 const float_4 *_tmp_1 = reinterpret_cast< const float_4*>(buffer_0);
const float_4 l_78 = _tmp_1[l_77];
const float l_79 = l_78.i_0;
const float l_80 = l_78.i_1;
const float l_81 = l_78.i_2;
const float l_82 = l_78.i_3;
const uint32 l_83 = l_6 % uint32(24);
const uint32 l_84 = l_19 * uint32(24);
const uint32 l_85 = l_84 + l_83;
const float l_86 = buffer_1[l_85];
const uint32 l_87 = l_6 % uint32(24);
const uint32 l_88 = l_22 * uint32(24);
const uint32 l_89 = l_88 + l_87;
const float l_90 = buffer_1[l_89];
const uint32 l_91 = l_6 % uint32(24);
const uint32 l_92 = l_23 * uint32(24);
const uint32 l_93 = l_92 + l_91;
const float l_94 = buffer_1[l_93];
const uint32 l_95 = l_6 % uint32(24);
const uint32 l_96 = l_24 * uint32(24);
const uint32 l_97 = l_96 + l_95;
const float l_98 = buffer_1[l_97];
const float l_99 = l_79 * l_86;
const float l_100 = l_80 * l_90;
const float l_101 = l_81 * l_94;
const float l_102 = l_82 * l_98;
const uint32 l_103 = l_6 / uint32(24);
const uint32 l_104 = l_103 * uint32(40);
const uint32 l_105 = l_35 + l_104;
const uint32 l_106 = l_105 / uint32(4);
 const float_4 *_tmp_2 = reinterpret_cast< const float_4*>(buffer_0);
const float_4 l_107 = _tmp_2[l_106];
const float l_108 = l_107.i_0;
const float l_109 = l_107.i_1;
const float l_110 = l_107.i_2;
const float l_111 = l_107.i_3;
const uint32 l_112 = l_6 % uint32(24);
const uint32 l_113 = l_35 * uint32(24);
const uint32 l_114 = l_113 + l_112;
const float l_115 = buffer_1[l_114];
const uint32 l_116 = l_6 % uint32(24);
const uint32 l_117 = l_36 * uint32(24);
const uint32 l_118 = l_117 + l_116;
const float l_119 = buffer_1[l_118];
const uint32 l_120 = l_6 % uint32(24);
const uint32 l_121 = l_37 * uint32(24);
const uint32 l_122 = l_121 + l_120;
const float l_123 = buffer_1[l_122];
const uint32 l_124 = l_6 % uint32(24);
const uint32 l_125 = l_38 * uint32(24);
const uint32 l_126 = l_125 + l_124;
const float l_127 = buffer_1[l_126];
const float l_128 = l_108 * l_115;
const float l_129 = l_109 * l_119;
const float l_130 = l_110 * l_123;
const float l_131 = l_111 * l_127;
const float l_132 = l_70 + l_71;
const float l_133 = l_132 + l_72;
const float l_134 = l_133 + l_73;
const float l_135 = l_134 + l_99;
const float l_136 = l_135 + l_100;
const float l_137 = l_136 + l_101;
const float l_138 = l_137 + l_102;
const float l_139 = (l_33) ? l_128 : float(0.0);
const float l_140 = l_138 + l_139;
const float l_141 = (l_33) ? l_129 : float(0.0);
const float l_142 = l_140 + l_141;
const float l_143 = (l_33) ? l_130 : float(0.0);
const float l_144 = l_142 + l_143;
const float l_145 = (l_33) ? l_131 : float(0.0);
const float l_146 = l_144 + l_145;
const float l_147 = { __shfl_xor_sync(-1, l_146, uint32(2)) };
const float l_148 = l_146 + l_147;
const float l_149 = { __shfl_xor_sync(-1, l_148, uint32(1)) };
const float l_150 = l_148 + l_149;
const float l_151 = l_150 + l_44;
const float l_152 = float(0.0);
const float l_153 = largest(l_151, l_152);
const bool l_154 = l_0 == uint32(0);
const bool l_155 = l_4 && l_154;
if (l_155) {
buffer_3[l_6] = l_153;
}

}