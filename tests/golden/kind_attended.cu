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
    uint32 scalars_uint32[2];uint32 static_meta[6];
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

extern "C" __global__ void __launch_bounds__(256)attention (
    float* buffer_0, const float* __restrict__ buffer_1, float* buffer_2, const __grid_constant__ info_st info
) {
await_kernel_before();
uint32 blockIdxGlobal = (blockIdx.z * gridDim.y * gridDim.x) + (blockIdx.y * gridDim.x) + blockIdx.x;
uint32 warpSizeChecked = min(warpSize, blockDim.x * blockDim.y * blockDim.z);
extern __shared__ __align__(4) uint8 dynamic_shared_mem[];
// Shared array size: 164, 656 bytes
uint32 *shared_memory_0 = reinterpret_cast<uint32*>(&dynamic_shared_mem[0]);
float l_mut_139;
float l_mut_140;
float l_mut_141;
float l_mut_142;
const uint32 l_1 = threadIdx.x / uint32(32);
const uint32 l_2 = threadIdx.x % uint32(32);
const uint32 l_3 = blockIdxGlobal / uint32(5);

for (uint32 l_mut_4 = threadIdx.x; l_mut_4 < uint32(16); l_mut_4 += uint32(256)) {
const uint32 l_5 = blockIdxGlobal * uint32(16);
const uint32 l_6 = l_5 + l_mut_4;
const float l_7 = buffer_0[l_6];
const uint32 l_8 = uint32(12) + l_mut_4;
const uint32 l_9 = reinterpret_cast<uint32 const&>(l_7);
shared_memory_0[l_8] = l_9;
}
__syncthreads();

const uint32 l_10 = l_2 / uint32(4);
const uint32 l_11 = l_2 % uint32(4);
const uint32 l_12 = l_1 * uint32(8);

for (uint32 l_mut_13 = l_12; l_mut_13 < uint32(9); l_mut_13 += uint32(64)) {
float l_mut_19;
const uint32 l_14 = l_3 * uint32(9);
const uint32 l_15 = l_mut_13 + l_10;
const bool l_16 = l_15 < uint32(9);
const uint32 l_17 = (l_16) ? l_15 : uint32(8);
const uint32 l_18 = l_14 + l_17;
l_mut_19 = float(0.0);
const uint32 l_20 = l_11 * uint32(4);

for (uint32 l_mut_21 = l_20; l_mut_21 < uint32(16); l_mut_21 += uint32(16)) {
const uint32 l_22 = uint32(12) + l_mut_21;
const uint32 l_23 = l_22 + uint32(1);
const uint32 l_24 = l_22 + uint32(2);
const uint32 l_25 = l_22 + uint32(3);
const uint32 l_26 = shared_memory_0[l_22];
const float l_27 = reinterpret_cast<float const&>(l_26);
const uint32 l_28 = shared_memory_0[l_23];
const float l_29 = reinterpret_cast<float const&>(l_28);
const uint32 l_30 = shared_memory_0[l_24];
const float l_31 = reinterpret_cast<float const&>(l_30);
const uint32 l_32 = shared_memory_0[l_25];
const float l_33 = reinterpret_cast<float const&>(l_32);
const uint32 l_34 = l_18 * uint32(16);
const uint32 l_35 = l_34 + l_mut_21;
const uint32 l_36 = l_35 + uint32(1);
const uint32 l_37 = l_35 + uint32(2);
const uint32 l_38 = l_35 + uint32(3);
const uint32 l_39 = l_35 / uint32(4);
 const float_4 *_tmp_0 = reinterpret_cast< const float_4*>(buffer_1);
const float_4 l_40 = _tmp_0[l_39];
const float l_41 = l_40.i_0;
const float l_42 = l_40.i_1;
const float l_43 = l_40.i_2;
const float l_44 = l_40.i_3;
const float l_45 = fma(l_27, l_41, l_mut_19);
const float l_46 = fma(l_29, l_42, l_45);
const float l_47 = fma(l_31, l_43, l_46);
const float l_48 = fma(l_33, l_44, l_47);
l_mut_19 = l_48;
}
const float l_49 = l_mut_19;
const float l_50 = { __shfl_xor_sync(-1, l_49, uint32(2)) };
const float l_51 = l_49 + l_50;
const float l_52 = { __shfl_xor_sync(-1, l_51, uint32(1)) };
const float l_53 = l_51 + l_52;
const bool l_54 = l_11 == uint32(0);
const bool l_55 = l_54 && l_16;
if (l_55) {
const uint32 l_56 = reinterpret_cast<uint32 const&>(l_53);
shared_memory_0[l_17] = l_56;
}
}
__syncthreads();

const uint32 l_57 = blockIdxGlobal * uint32(9);
const bool l_58 = threadIdx.x < uint32(9);
const uint32 l_59 = (l_58) ? threadIdx.x : uint32(0);
const uint32 l_60 = l_57 + l_59;
const uint32 l_61 = uint32(4286578688);
const float l_62 = reinterpret_cast<float const&>(l_61);
const uint32 l_63 = shared_memory_0[l_59];
const float l_64 = reinterpret_cast<float const&>(l_63);
const float l_65 = l_64 * float(0.25);
const uint32 l_66 = uint32(4286578688);
const float l_67 = reinterpret_cast<float const&>(l_66);
const float l_68 = (l_58) ? l_65 : l_67;
const float l_69 = { __shfl_xor_sync(-1, l_68, uint32(16)) };
const float l_70 = largest(l_68, l_69);
const float l_71 = { __shfl_xor_sync(-1, l_70, uint32(8)) };
const float l_72 = largest(l_70, l_71);
const float l_73 = { __shfl_xor_sync(-1, l_72, uint32(4)) };
const float l_74 = largest(l_72, l_73);
const float l_75 = { __shfl_xor_sync(-1, l_74, uint32(2)) };
const float l_76 = largest(l_74, l_75);
const float l_77 = { __shfl_xor_sync(-1, l_76, uint32(1)) };
const float l_78 = largest(l_76, l_77);
const uint32 l_79 = threadIdx.x / uint32(32);
const uint32 l_80 = threadIdx.x % uint32(32);
const bool l_81 = l_80 == uint32(0);
if (l_81) {
const uint32 l_82 = l_79 + uint32(156);
const uint32 l_83 = reinterpret_cast<uint32 const&>(l_78);
shared_memory_0[l_82] = l_83;
}
__syncthreads();

const uint32 l_84 = l_80 % uint32(8);
const uint32 l_85 = l_84 + uint32(156);
const uint32 l_86 = shared_memory_0[l_85];
const float l_87 = reinterpret_cast<float const&>(l_86);
__syncthreads();

const float l_88 = { __shfl_xor_sync(-1, l_87, uint32(4)) };
const float l_89 = largest(l_87, l_88);
const float l_90 = { __shfl_xor_sync(-1, l_89, uint32(2)) };
const float l_91 = largest(l_89, l_90);
const float l_92 = { __shfl_xor_sync(-1, l_91, uint32(1)) };
const float l_93 = largest(l_91, l_92);
const bool l_94 = l_93 == l_62;
const float l_95 = (l_94) ? float(0.0) : l_93;
const float l_96 = l_65 - l_95;
const float l_97 = exp(l_96);
const float l_98 = (l_58) ? l_97 : float(0.0);
const float l_99 = { __shfl_xor_sync(-1, l_98, uint32(16)) };
const float l_100 = l_98 + l_99;
const float l_101 = { __shfl_xor_sync(-1, l_100, uint32(8)) };
const float l_102 = l_100 + l_101;
const float l_103 = { __shfl_xor_sync(-1, l_102, uint32(4)) };
const float l_104 = l_102 + l_103;
const float l_105 = { __shfl_xor_sync(-1, l_104, uint32(2)) };
const float l_106 = l_104 + l_105;
const float l_107 = { __shfl_xor_sync(-1, l_106, uint32(1)) };
const float l_108 = l_106 + l_107;
const uint32 l_109 = threadIdx.x / uint32(32);
const uint32 l_110 = threadIdx.x % uint32(32);
const bool l_111 = l_110 == uint32(0);
if (l_111) {
const uint32 l_112 = l_109 + uint32(156);
const uint32 l_113 = reinterpret_cast<uint32 const&>(l_108);
shared_memory_0[l_112] = l_113;
}
__syncthreads();

const uint32 l_114 = l_110 % uint32(8);
const uint32 l_115 = l_114 + uint32(156);
const uint32 l_116 = shared_memory_0[l_115];
const float l_117 = reinterpret_cast<float const&>(l_116);
__syncthreads();

const float l_118 = { __shfl_xor_sync(-1, l_117, uint32(4)) };
const float l_119 = l_117 + l_118;
const float l_120 = { __shfl_xor_sync(-1, l_119, uint32(2)) };
const float l_121 = l_119 + l_120;
const float l_122 = { __shfl_xor_sync(-1, l_121, uint32(1)) };
const float l_123 = l_121 + l_122;
const bool l_124 = l_123 == float(0.0);
const float l_125 = (l_124) ? float(1.0) : l_123;
const float l_126 = abs(l_125);
const bool l_127 = l_126 < float(7.888609052210118e-31);
const bool l_128 = float(1.2676506002282294e30) < l_126;
const float l_129 = (l_128) ? float(5.421010862427522e-20) : float(1.0);
const float l_130 = (l_127) ? float(1.8446744073709552e19) : l_129;
const float l_131 = l_125 * l_130;
const float l_132 = float(1.0) / l_131;
const float l_133 = l_97 * l_132;
const float l_134 = l_133 * l_130;
if (l_58) {
const uint32 l_135 = reinterpret_cast<uint32 const&>(l_134);
shared_memory_0[l_59] = l_135;
}
__syncthreads();

const uint32 l_136 = l_2 / uint32(4);
const uint32 l_137 = l_2 % uint32(4);
const uint32 l_138 = l_137 * uint32(4);
l_mut_139 = float(0.0);
l_mut_140 = float(0.0);
l_mut_141 = float(0.0);
l_mut_142 = float(0.0);
const uint32 l_143 = l_1 * uint32(8);

for (uint32 l_mut_144 = l_143; l_mut_144 < uint32(9); l_mut_144 += uint32(64)) {
const uint32 l_145 = l_3 * uint32(9);
const uint32 l_146 = l_mut_144 + l_136;
const bool l_147 = l_146 < uint32(9);
const uint32 l_148 = (l_147) ? l_146 : uint32(8);
const uint32 l_149 = l_145 + l_148;
const uint32 l_150 = shared_memory_0[l_148];
const float l_151 = reinterpret_cast<float const&>(l_150);
const bool l_152 = l_138 < uint32(16);
if (l_152) {
const uint32 l_153 = l_149 * uint32(16);
const uint32 l_154 = l_153 + l_138;
const uint32 l_155 = l_154 + uint32(1);
const uint32 l_156 = l_154 + uint32(2);
const uint32 l_157 = l_154 + uint32(3);
const uint32 l_158 = l_154 / uint32(4);
 const float_4 *_tmp_1 = reinterpret_cast< const float_4*>(buffer_1);
const float_4 l_159 = _tmp_1[l_158];
const float l_160 = l_159.i_0;
const float l_161 = l_159.i_1;
const float l_162 = l_159.i_2;
const float l_163 = l_159.i_3;
const float l_164 = fma(l_151, l_160, l_mut_139);
const float l_165 = (l_147) ? l_164 : l_mut_139;
l_mut_139 = l_165;
const float l_166 = fma(l_151, l_161, l_mut_140);
const float l_167 = (l_147) ? l_166 : l_mut_140;
l_mut_140 = l_167;
const float l_168 = fma(l_151, l_162, l_mut_141);
const float l_169 = (l_147) ? l_168 : l_mut_141;
l_mut_141 = l_169;
const float l_170 = fma(l_151, l_163, l_mut_142);
const float l_171 = (l_147) ? l_170 : l_mut_142;
l_mut_142 = l_171;
}
}
const uint32 l_172 = l_1 * uint32(16);
const uint32 l_173 = uint32(28) + l_172;
const float l_174 = l_mut_139;
const float l_175 = { __shfl_xor_sync(-1, l_174, uint32(4)) };
const float l_176 = l_174 + l_175;
const float l_177 = { __shfl_xor_sync(-1, l_176, uint32(8)) };
const float l_178 = l_176 + l_177;
const float l_179 = { __shfl_xor_sync(-1, l_178, uint32(16)) };
const float l_180 = l_178 + l_179;
const float l_181 = l_mut_140;
const float l_182 = { __shfl_xor_sync(-1, l_181, uint32(4)) };
const float l_183 = l_181 + l_182;
const float l_184 = { __shfl_xor_sync(-1, l_183, uint32(8)) };
const float l_185 = l_183 + l_184;
const float l_186 = { __shfl_xor_sync(-1, l_185, uint32(16)) };
const float l_187 = l_185 + l_186;
const float l_188 = l_mut_141;
const float l_189 = { __shfl_xor_sync(-1, l_188, uint32(4)) };
const float l_190 = l_188 + l_189;
const float l_191 = { __shfl_xor_sync(-1, l_190, uint32(8)) };
const float l_192 = l_190 + l_191;
const float l_193 = { __shfl_xor_sync(-1, l_192, uint32(16)) };
const float l_194 = l_192 + l_193;
const float l_195 = l_mut_142;
const float l_196 = { __shfl_xor_sync(-1, l_195, uint32(4)) };
const float l_197 = l_195 + l_196;
const float l_198 = { __shfl_xor_sync(-1, l_197, uint32(8)) };
const float l_199 = l_197 + l_198;
const float l_200 = { __shfl_xor_sync(-1, l_199, uint32(16)) };
const float l_201 = l_199 + l_200;
const uint32 l_202 = l_2 * uint32(4);
const bool l_203 = l_202 < uint32(16);
if (l_203) {
const uint32 l_204 = l_173 + l_202;
const uint32 l_205 = l_204 + uint32(1);
const uint32 l_206 = l_204 + uint32(2);
const uint32 l_207 = l_204 + uint32(3);
const uint32 l_208 = reinterpret_cast<uint32 const&>(l_180);
shared_memory_0[l_204] = l_208;
const uint32 l_209 = reinterpret_cast<uint32 const&>(l_187);
shared_memory_0[l_205] = l_209;
const uint32 l_210 = reinterpret_cast<uint32 const&>(l_194);
shared_memory_0[l_206] = l_210;
const uint32 l_211 = reinterpret_cast<uint32 const&>(l_201);
shared_memory_0[l_207] = l_211;
}
__syncthreads();


for (uint32 l_mut_212 = threadIdx.x; l_mut_212 < uint32(16); l_mut_212 += uint32(256)) {
const uint32 l_213 = uint32(28) + l_mut_212;
const uint32 l_214 = shared_memory_0[l_213];
const float l_215 = reinterpret_cast<float const&>(l_214);
const uint32 l_216 = l_213 + uint32(16);
const uint32 l_217 = shared_memory_0[l_216];
const float l_218 = reinterpret_cast<float const&>(l_217);
const float l_219 = l_215 + l_218;
const uint32 l_220 = l_213 + uint32(32);
const uint32 l_221 = shared_memory_0[l_220];
const float l_222 = reinterpret_cast<float const&>(l_221);
const float l_223 = l_219 + l_222;
const uint32 l_224 = l_213 + uint32(48);
const uint32 l_225 = shared_memory_0[l_224];
const float l_226 = reinterpret_cast<float const&>(l_225);
const float l_227 = l_223 + l_226;
const uint32 l_228 = l_213 + uint32(64);
const uint32 l_229 = shared_memory_0[l_228];
const float l_230 = reinterpret_cast<float const&>(l_229);
const float l_231 = l_227 + l_230;
const uint32 l_232 = l_213 + uint32(80);
const uint32 l_233 = shared_memory_0[l_232];
const float l_234 = reinterpret_cast<float const&>(l_233);
const float l_235 = l_231 + l_234;
const uint32 l_236 = l_213 + uint32(96);
const uint32 l_237 = shared_memory_0[l_236];
const float l_238 = reinterpret_cast<float const&>(l_237);
const float l_239 = l_235 + l_238;
const uint32 l_240 = l_213 + uint32(112);
const uint32 l_241 = shared_memory_0[l_240];
const float l_242 = reinterpret_cast<float const&>(l_241);
const float l_243 = l_239 + l_242;
const uint32 l_244 = blockIdxGlobal * uint32(16);
const uint32 l_245 = l_244 + l_mut_212;
buffer_2[l_245] = l_243;
}

}