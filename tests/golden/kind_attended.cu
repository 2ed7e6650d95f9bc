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

extern "C" __global__ void __launch_bounds__(256)attention (
    float* buffer_0, const float* __restrict__ buffer_1, float* buffer_2, const __grid_constant__ info_st info
) {
uint32 blockIdxGlobal = (blockIdx.z * gridDim.y * gridDim.x) + (blockIdx.y * gridDim.x) + blockIdx.x;
uint32 warpSizeChecked = min(warpSize, blockDim.x * blockDim.y * blockDim.z);
extern __shared__ __align__(4) uint8 dynamic_shared_mem[];
// Shared array size: 164, 656 bytes
uint32 *shared_memory_0 = reinterpret_cast<uint32*>(&dynamic_shared_mem[0]);
float l_mut_242;
float l_mut_243;
float l_mut_244;
float l_mut_245;
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

const uint32 l_10 = l_1 * uint32(4);

for (uint32 l_mut_11 = l_10; l_mut_11 < uint32(9); l_mut_11 += uint32(32)) {
float l_mut_28;
float l_mut_29;
float l_mut_30;
float l_mut_31;
const uint32 l_12 = l_3 * uint32(9);
const bool l_13 = l_mut_11 < uint32(9);
const uint32 l_14 = (l_13) ? l_mut_11 : uint32(8);
const uint32 l_15 = l_12 + l_14;
const uint32 l_16 = l_mut_11 + uint32(1);
const bool l_17 = l_16 < uint32(9);
const uint32 l_18 = (l_17) ? l_16 : uint32(8);
const uint32 l_19 = l_12 + l_18;
const uint32 l_20 = l_mut_11 + uint32(2);
const bool l_21 = l_20 < uint32(9);
const uint32 l_22 = (l_21) ? l_20 : uint32(8);
const uint32 l_23 = l_12 + l_22;
const uint32 l_24 = l_mut_11 + uint32(3);
const bool l_25 = l_24 < uint32(9);
const uint32 l_26 = (l_25) ? l_24 : uint32(8);
const uint32 l_27 = l_12 + l_26;
l_mut_28 = float(0.0);
l_mut_29 = float(0.0);
l_mut_30 = float(0.0);
l_mut_31 = float(0.0);
const uint32 l_32 = l_2 * uint32(4);

for (uint32 l_mut_33 = l_32; l_mut_33 < uint32(16); l_mut_33 += uint32(128)) {
const uint32 l_34 = uint32(12) + l_mut_33;
const uint32 l_35 = l_34 + uint32(1);
const uint32 l_36 = l_34 + uint32(2);
const uint32 l_37 = l_34 + uint32(3);
const uint32 l_38 = shared_memory_0[l_34];
const float l_39 = reinterpret_cast<float const&>(l_38);
const uint32 l_40 = shared_memory_0[l_35];
const float l_41 = reinterpret_cast<float const&>(l_40);
const uint32 l_42 = shared_memory_0[l_36];
const float l_43 = reinterpret_cast<float const&>(l_42);
const uint32 l_44 = shared_memory_0[l_37];
const float l_45 = reinterpret_cast<float const&>(l_44);
const uint32 l_46 = l_15 * uint32(16);
const uint32 l_47 = l_46 + l_mut_33;
const uint32 l_48 = l_47 + uint32(1);
const uint32 l_49 = l_47 + uint32(2);
const uint32 l_50 = l_47 + uint32(3);
const uint32 l_51 = l_47 / uint32(4);
 const float_4 *_tmp_0 = reinterpret_cast< const float_4*>(buffer_1);
const float_4 l_52 = _tmp_0[l_51];
const float l_53 = l_52.i_0;
const float l_54 = l_52.i_1;
const float l_55 = l_52.i_2;
const float l_56 = l_52.i_3;
const float l_57 = fma(l_39, l_53, l_mut_28);
const float l_58 = fma(l_41, l_54, l_57);
const float l_59 = fma(l_43, l_55, l_58);
const float l_60 = fma(l_45, l_56, l_59);
l_mut_28 = l_60;
const uint32 l_61 = l_19 * uint32(16);
const uint32 l_62 = l_61 + l_mut_33;
const uint32 l_63 = l_62 + uint32(1);
const uint32 l_64 = l_62 + uint32(2);
const uint32 l_65 = l_62 + uint32(3);
const uint32 l_66 = l_62 / uint32(4);
 const float_4 *_tmp_1 = reinterpret_cast< const float_4*>(buffer_1);
const float_4 l_67 = _tmp_1[l_66];
const float l_68 = l_67.i_0;
const float l_69 = l_67.i_1;
const float l_70 = l_67.i_2;
const float l_71 = l_67.i_3;
const float l_72 = fma(l_39, l_68, l_mut_29);
const float l_73 = fma(l_41, l_69, l_72);
const float l_74 = fma(l_43, l_70, l_73);
const float l_75 = fma(l_45, l_71, l_74);
l_mut_29 = l_75;
const uint32 l_76 = l_23 * uint32(16);
const uint32 l_77 = l_76 + l_mut_33;
const uint32 l_78 = l_77 + uint32(1);
const uint32 l_79 = l_77 + uint32(2);
const uint32 l_80 = l_77 + uint32(3);
const uint32 l_81 = l_77 / uint32(4);
 const float_4 *_tmp_2 = reinterpret_cast< const float_4*>(buffer_1);
const float_4 l_82 = _tmp_2[l_81];
const float l_83 = l_82.i_0;
const float l_84 = l_82.i_1;
const float l_85 = l_82.i_2;
const float l_86 = l_82.i_3;
const float l_87 = fma(l_39, l_83, l_mut_30);
const float l_88 = fma(l_41, l_84, l_87);
const float l_89 = fma(l_43, l_85, l_88);
const float l_90 = fma(l_45, l_86, l_89);
l_mut_30 = l_90;
const uint32 l_91 = l_27 * uint32(16);
const uint32 l_92 = l_91 + l_mut_33;
const uint32 l_93 = l_92 + uint32(1);
const uint32 l_94 = l_92 + uint32(2);
const uint32 l_95 = l_92 + uint32(3);
const uint32 l_96 = l_92 / uint32(4);
 const float_4 *_tmp_3 = reinterpret_cast< const float_4*>(buffer_1);
const float_4 l_97 = _tmp_3[l_96];
const float l_98 = l_97.i_0;
const float l_99 = l_97.i_1;
const float l_100 = l_97.i_2;
const float l_101 = l_97.i_3;
const float l_102 = fma(l_39, l_98, l_mut_31);
const float l_103 = fma(l_41, l_99, l_102);
const float l_104 = fma(l_43, l_100, l_103);
const float l_105 = fma(l_45, l_101, l_104);
l_mut_31 = l_105;
}
const float l_106 = l_mut_28;
const float l_107 = { __shfl_xor_sync(-1, l_106, uint32(16)) };
const float l_108 = l_106 + l_107;
const float l_109 = { __shfl_xor_sync(-1, l_108, uint32(8)) };
const float l_110 = l_108 + l_109;
const float l_111 = { __shfl_xor_sync(-1, l_110, uint32(4)) };
const float l_112 = l_110 + l_111;
const float l_113 = { __shfl_xor_sync(-1, l_112, uint32(2)) };
const float l_114 = l_112 + l_113;
const float l_115 = { __shfl_xor_sync(-1, l_114, uint32(1)) };
const float l_116 = l_114 + l_115;
const bool l_117 = l_2 == uint32(0);
const bool l_118 = l_117 && l_13;
if (l_118) {
const uint32 l_119 = reinterpret_cast<uint32 const&>(l_116);
shared_memory_0[l_14] = l_119;
}
const float l_120 = l_mut_29;
const float l_121 = { __shfl_xor_sync(-1, l_120, uint32(16)) };
const float l_122 = l_120 + l_121;
const float l_123 = { __shfl_xor_sync(-1, l_122, uint32(8)) };
const float l_124 = l_122 + l_123;
const float l_125 = { __shfl_xor_sync(-1, l_124, uint32(4)) };
const float l_126 = l_124 + l_125;
const float l_127 = { __shfl_xor_sync(-1, l_126, uint32(2)) };
const float l_128 = l_126 + l_127;
const float l_129 = { __shfl_xor_sync(-1, l_128, uint32(1)) };
const float l_130 = l_128 + l_129;
const bool l_131 = l_2 == uint32(0);
const bool l_132 = l_131 && l_17;
if (l_132) {
const uint32 l_133 = reinterpret_cast<uint32 const&>(l_130);
shared_memory_0[l_18] = l_133;
}
const float l_134 = l_mut_30;
const float l_135 = { __shfl_xor_sync(-1, l_134, uint32(16)) };
const float l_136 = l_134 + l_135;
const float l_137 = { __shfl_xor_sync(-1, l_136, uint32(8)) };
const float l_138 = l_136 + l_137;
const float l_139 = { __shfl_xor_sync(-1, l_138, uint32(4)) };
const float l_140 = l_138 + l_139;
const float l_141 = { __shfl_xor_sync(-1, l_140, uint32(2)) };
const float l_142 = l_140 + l_141;
const float l_143 = { __shfl_xor_sync(-1, l_142, uint32(1)) };
const float l_144 = l_142 + l_143;
const bool l_145 = l_2 == uint32(0);
const bool l_146 = l_145 && l_21;
if (l_146) {
const uint32 l_147 = reinterpret_cast<uint32 const&>(l_144);
shared_memory_0[l_22] = l_147;
}
const float l_148 = l_mut_31;
const float l_149 = { __shfl_xor_sync(-1, l_148, uint32(16)) };
const float l_150 = l_148 + l_149;
const float l_151 = { __shfl_xor_sync(-1, l_150, uint32(8)) };
const float l_152 = l_150 + l_151;
const float l_153 = { __shfl_xor_sync(-1, l_152, uint32(4)) };
const float l_154 = l_152 + l_153;
const float l_155 = { __shfl_xor_sync(-1, l_154, uint32(2)) };
const float l_156 = l_154 + l_155;
const float l_157 = { __shfl_xor_sync(-1, l_156, uint32(1)) };
const float l_158 = l_156 + l_157;
const bool l_159 = l_2 == uint32(0);
const bool l_160 = l_159 && l_25;
if (l_160) {
const uint32 l_161 = reinterpret_cast<uint32 const&>(l_158);
shared_memory_0[l_26] = l_161;
}
}
__syncthreads();

const uint32 l_162 = blockIdxGlobal * uint32(9);
const bool l_163 = threadIdx.x < uint32(9);
const uint32 l_164 = (l_163) ? threadIdx.x : uint32(0);
const uint32 l_165 = l_162 + l_164;
const uint32 l_166 = uint32(4286578688);
const float l_167 = reinterpret_cast<float const&>(l_166);
const uint32 l_168 = shared_memory_0[l_164];
const float l_169 = reinterpret_cast<float const&>(l_168);
const float l_170 = l_169 * float(0.25);
const uint32 l_171 = uint32(4286578688);
const float l_172 = reinterpret_cast<float const&>(l_171);
const float l_173 = (l_163) ? l_170 : l_172;
const float l_174 = { __shfl_xor_sync(-1, l_173, uint32(16)) };
const float l_175 = largest(l_173, l_174);
const float l_176 = { __shfl_xor_sync(-1, l_175, uint32(8)) };
const float l_177 = largest(l_175, l_176);
const float l_178 = { __shfl_xor_sync(-1, l_177, uint32(4)) };
const float l_179 = largest(l_177, l_178);
const float l_180 = { __shfl_xor_sync(-1, l_179, uint32(2)) };
const float l_181 = largest(l_179, l_180);
const float l_182 = { __shfl_xor_sync(-1, l_181, uint32(1)) };
const float l_183 = largest(l_181, l_182);
const uint32 l_184 = threadIdx.x / uint32(32);
const uint32 l_185 = threadIdx.x % uint32(32);
const bool l_186 = l_185 == uint32(0);
if (l_186) {
const uint32 l_187 = l_184 + uint32(156);
const uint32 l_188 = reinterpret_cast<uint32 const&>(l_183);
shared_memory_0[l_187] = l_188;
}
__syncthreads();

const uint32 l_189 = l_185 % uint32(8);
const uint32 l_190 = l_189 + uint32(156);
const uint32 l_191 = shared_memory_0[l_190];
const float l_192 = reinterpret_cast<float const&>(l_191);
__syncthreads();

const float l_193 = { __shfl_xor_sync(-1, l_192, uint32(4)) };
const float l_194 = largest(l_192, l_193);
const float l_195 = { __shfl_xor_sync(-1, l_194, uint32(2)) };
const float l_196 = largest(l_194, l_195);
const float l_197 = { __shfl_xor_sync(-1, l_196, uint32(1)) };
const float l_198 = largest(l_196, l_197);
const bool l_199 = l_198 == l_167;
const float l_200 = (l_199) ? float(0.0) : l_198;
const float l_201 = l_170 - l_200;
const float l_202 = exp(l_201);
const float l_203 = (l_163) ? l_202 : float(0.0);
const float l_204 = { __shfl_xor_sync(-1, l_203, uint32(16)) };
const float l_205 = l_203 + l_204;
const float l_206 = { __shfl_xor_sync(-1, l_205, uint32(8)) };
const float l_207 = l_205 + l_206;
const float l_208 = { __shfl_xor_sync(-1, l_207, uint32(4)) };
const float l_209 = l_207 + l_208;
const float l_210 = { __shfl_xor_sync(-1, l_209, uint32(2)) };
const float l_211 = l_209 + l_210;
const float l_212 = { __shfl_xor_sync(-1, l_211, uint32(1)) };
const float l_213 = l_211 + l_212;
const uint32 l_214 = threadIdx.x / uint32(32);
const uint32 l_215 = threadIdx.x % uint32(32);
const bool l_216 = l_215 == uint32(0);
if (l_216) {
const uint32 l_217 = l_214 + uint32(156);
const uint32 l_218 = reinterpret_cast<uint32 const&>(l_213);
shared_memory_0[l_217] = l_218;
}
__syncthreads();

const uint32 l_219 = l_215 % uint32(8);
const uint32 l_220 = l_219 + uint32(156);
const uint32 l_221 = shared_memory_0[l_220];
const float l_222 = reinterpret_cast<float const&>(l_221);
__syncthreads();

const float l_223 = { __shfl_xor_sync(-1, l_222, uint32(4)) };
const float l_224 = l_222 + l_223;
const float l_225 = { __shfl_xor_sync(-1, l_224, uint32(2)) };
const float l_226 = l_224 + l_225;
const float l_227 = { __shfl_xor_sync(-1, l_226, uint32(1)) };
const float l_228 = l_226 + l_227;
const bool l_229 = l_228 == float(0.0);
const float l_230 = (l_229) ? float(1.0) : l_228;
const float l_231 = abs(l_230);
const bool l_232 = l_231 < float(7.888609052210118e-31);
const bool l_233 = float(1.2676506002282294e30) < l_231;
const float l_234 = (l_233) ? float(5.421010862427522e-20) : float(1.0);
const float l_235 = (l_232) ? float(1.8446744073709552e19) : l_234;
const float l_236 = l_230 * l_235;
const float l_237 = float(1.0) / l_236;
const float l_238 = l_202 * l_237;
const float l_239 = l_238 * l_235;
if (l_163) {
const uint32 l_240 = reinterpret_cast<uint32 const&>(l_239);
shared_memory_0[l_164] = l_240;
}
__syncthreads();

const uint32 l_241 = l_2 * uint32(4);
l_mut_242 = float(0.0);
l_mut_243 = float(0.0);
l_mut_244 = float(0.0);
l_mut_245 = float(0.0);
const uint32 l_246 = l_1 * uint32(4);

for (uint32 l_mut_247 = l_246; l_mut_247 < uint32(9); l_mut_247 += uint32(32)) {
const uint32 l_248 = l_3 * uint32(9);
const bool l_249 = l_mut_247 < uint32(9);
const uint32 l_250 = (l_249) ? l_mut_247 : uint32(8);
const uint32 l_251 = l_248 + l_250;
const uint32 l_252 = l_mut_247 + uint32(1);
const bool l_253 = l_252 < uint32(9);
const uint32 l_254 = (l_253) ? l_252 : uint32(8);
const uint32 l_255 = l_248 + l_254;
const uint32 l_256 = l_mut_247 + uint32(2);
const bool l_257 = l_256 < uint32(9);
const uint32 l_258 = (l_257) ? l_256 : uint32(8);
const uint32 l_259 = l_248 + l_258;
const uint32 l_260 = l_mut_247 + uint32(3);
const bool l_261 = l_260 < uint32(9);
const uint32 l_262 = (l_261) ? l_260 : uint32(8);
const uint32 l_263 = l_248 + l_262;
const uint32 l_264 = shared_memory_0[l_250];
const float l_265 = reinterpret_cast<float const&>(l_264);
const uint32 l_266 = shared_memory_0[l_254];
const float l_267 = reinterpret_cast<float const&>(l_266);
const uint32 l_268 = shared_memory_0[l_258];
const float l_269 = reinterpret_cast<float const&>(l_268);
const uint32 l_270 = shared_memory_0[l_262];
const float l_271 = reinterpret_cast<float const&>(l_270);
const bool l_272 = l_241 < uint32(16);
if (l_272) {
const uint32 l_273 = l_251 * uint32(16);
const uint32 l_274 = l_273 + l_241;
const uint32 l_275 = l_274 + uint32(1);
const uint32 l_276 = l_274 + uint32(2);
const uint32 l_277 = l_274 + uint32(3);
const uint32 l_278 = l_274 / uint32(4);
 const float_4 *_tmp_4 = reinterpret_cast< const float_4*>(buffer_1);
const float_4 l_279 = _tmp_4[l_278];
const float l_280 = l_279.i_0;
const float l_281 = l_279.i_1;
const float l_282 = l_279.i_2;
const float l_283 = l_279.i_3;
const float l_284 = fma(l_265, l_280, l_mut_242);
const float l_285 = (l_249) ? l_284 : l_mut_242;
l_mut_242 = l_285;
const float l_286 = fma(l_265, l_281, l_mut_243);
const float l_287 = (l_249) ? l_286 : l_mut_243;
l_mut_243 = l_287;
const float l_288 = fma(l_265, l_282, l_mut_244);
const float l_289 = (l_249) ? l_288 : l_mut_244;
l_mut_244 = l_289;
const float l_290 = fma(l_265, l_283, l_mut_245);
const float l_291 = (l_249) ? l_290 : l_mut_245;
l_mut_245 = l_291;
const uint32 l_292 = l_255 * uint32(16);
const uint32 l_293 = l_292 + l_241;
const uint32 l_294 = l_293 + uint32(1);
const uint32 l_295 = l_293 + uint32(2);
const uint32 l_296 = l_293 + uint32(3);
const uint32 l_297 = l_293 / uint32(4);
 const float_4 *_tmp_5 = reinterpret_cast< const float_4*>(buffer_1);
const float_4 l_298 = _tmp_5[l_297];
const float l_299 = l_298.i_0;
const float l_300 = l_298.i_1;
const float l_301 = l_298.i_2;
const float l_302 = l_298.i_3;
const float l_303 = fma(l_267, l_299, l_mut_242);
const float l_304 = (l_253) ? l_303 : l_mut_242;
l_mut_242 = l_304;
const float l_305 = fma(l_267, l_300, l_mut_243);
const float l_306 = (l_253) ? l_305 : l_mut_243;
l_mut_243 = l_306;
const float l_307 = fma(l_267, l_301, l_mut_244);
const float l_308 = (l_253) ? l_307 : l_mut_244;
l_mut_244 = l_308;
const float l_309 = fma(l_267, l_302, l_mut_245);
const float l_310 = (l_253) ? l_309 : l_mut_245;
l_mut_245 = l_310;
const uint32 l_311 = l_259 * uint32(16);
const uint32 l_312 = l_311 + l_241;
const uint32 l_313 = l_312 + uint32(1);
const uint32 l_314 = l_312 + uint32(2);
const uint32 l_315 = l_312 + uint32(3);
const uint32 l_316 = l_312 / uint32(4);
 const float_4 *_tmp_6 = reinterpret_cast< const float_4*>(buffer_1);
const float_4 l_317 = _tmp_6[l_316];
const float l_318 = l_317.i_0;
const float l_319 = l_317.i_1;
const float l_320 = l_317.i_2;
const float l_321 = l_317.i_3;
const float l_322 = fma(l_269, l_318, l_mut_242);
const float l_323 = (l_257) ? l_322 : l_mut_242;
l_mut_242 = l_323;
const float l_324 = fma(l_269, l_319, l_mut_243);
const float l_325 = (l_257) ? l_324 : l_mut_243;
l_mut_243 = l_325;
const float l_326 = fma(l_269, l_320, l_mut_244);
const float l_327 = (l_257) ? l_326 : l_mut_244;
l_mut_244 = l_327;
const float l_328 = fma(l_269, l_321, l_mut_245);
const float l_329 = (l_257) ? l_328 : l_mut_245;
l_mut_245 = l_329;
const uint32 l_330 = l_263 * uint32(16);
const uint32 l_331 = l_330 + l_241;
const uint32 l_332 = l_331 + uint32(1);
const uint32 l_333 = l_331 + uint32(2);
const uint32 l_334 = l_331 + uint32(3);
const uint32 l_335 = l_331 / uint32(4);
 const float_4 *_tmp_7 = reinterpret_cast< const float_4*>(buffer_1);
const float_4 l_336 = _tmp_7[l_335];
const float l_337 = l_336.i_0;
const float l_338 = l_336.i_1;
const float l_339 = l_336.i_2;
const float l_340 = l_336.i_3;
const float l_341 = fma(l_271, l_337, l_mut_242);
const float l_342 = (l_261) ? l_341 : l_mut_242;
l_mut_242 = l_342;
const float l_343 = fma(l_271, l_338, l_mut_243);
const float l_344 = (l_261) ? l_343 : l_mut_243;
l_mut_243 = l_344;
const float l_345 = fma(l_271, l_339, l_mut_244);
const float l_346 = (l_261) ? l_345 : l_mut_244;
l_mut_244 = l_346;
const float l_347 = fma(l_271, l_340, l_mut_245);
const float l_348 = (l_261) ? l_347 : l_mut_245;
l_mut_245 = l_348;
}
}
const uint32 l_349 = l_1 * uint32(16);
const uint32 l_350 = uint32(28) + l_349;
const bool l_351 = l_241 < uint32(16);
if (l_351) {
const uint32 l_352 = l_350 + l_241;
const uint32 l_353 = l_352 + uint32(1);
const uint32 l_354 = l_352 + uint32(2);
const uint32 l_355 = l_352 + uint32(3);
const float l_356 = l_mut_242;
const uint32 l_357 = reinterpret_cast<uint32 const&>(l_356);
shared_memory_0[l_352] = l_357;
const float l_358 = l_mut_243;
const uint32 l_359 = reinterpret_cast<uint32 const&>(l_358);
shared_memory_0[l_353] = l_359;
const float l_360 = l_mut_244;
const uint32 l_361 = reinterpret_cast<uint32 const&>(l_360);
shared_memory_0[l_354] = l_361;
const float l_362 = l_mut_245;
const uint32 l_363 = reinterpret_cast<uint32 const&>(l_362);
shared_memory_0[l_355] = l_363;
}
__syncthreads();


for (uint32 l_mut_364 = threadIdx.x; l_mut_364 < uint32(16); l_mut_364 += uint32(256)) {
const uint32 l_365 = uint32(28) + l_mut_364;
const uint32 l_366 = shared_memory_0[l_365];
const float l_367 = reinterpret_cast<float const&>(l_366);
const uint32 l_368 = l_365 + uint32(16);
const uint32 l_369 = shared_memory_0[l_368];
const float l_370 = reinterpret_cast<float const&>(l_369);
const float l_371 = l_367 + l_370;
const uint32 l_372 = l_365 + uint32(32);
const uint32 l_373 = shared_memory_0[l_372];
const float l_374 = reinterpret_cast<float const&>(l_373);
const float l_375 = l_371 + l_374;
const uint32 l_376 = l_365 + uint32(48);
const uint32 l_377 = shared_memory_0[l_376];
const float l_378 = reinterpret_cast<float const&>(l_377);
const float l_379 = l_375 + l_378;
const uint32 l_380 = l_365 + uint32(64);
const uint32 l_381 = shared_memory_0[l_380];
const float l_382 = reinterpret_cast<float const&>(l_381);
const float l_383 = l_379 + l_382;
const uint32 l_384 = l_365 + uint32(80);
const uint32 l_385 = shared_memory_0[l_384];
const float l_386 = reinterpret_cast<float const&>(l_385);
const float l_387 = l_383 + l_386;
const uint32 l_388 = l_365 + uint32(96);
const uint32 l_389 = shared_memory_0[l_388];
const float l_390 = reinterpret_cast<float const&>(l_389);
const float l_391 = l_387 + l_390;
const uint32 l_392 = l_365 + uint32(112);
const uint32 l_393 = shared_memory_0[l_392];
const float l_394 = reinterpret_cast<float const&>(l_393);
const float l_395 = l_391 + l_394;
const uint32 l_396 = blockIdxGlobal * uint32(16);
const uint32 l_397 = l_396 + l_mut_364;
buffer_2[l_397] = l_395;
}

}