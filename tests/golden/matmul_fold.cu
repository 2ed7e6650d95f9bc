extern "C" __global__ void __launch_bounds__(256)fold (
    const float* __restrict__ buffer_0, const float* __restrict__ buffer_1, const float* __restrict__ buffer_2, float* buffer_3, int32* buffer_4, float* buffer_5, uint32* buffer_6, const __grid_constant__ info_st info
) {
await_kernel_before();
uint32 blockIdxGlobal = (blockIdx.z * gridDim.y * gridDim.x) + (blockIdx.y * gridDim.x) + blockIdx.x;
extern __shared__ __align__(4) uint8 dynamic_shared_mem[];
// Shared array size: 4105, 16420 bytes
uint32 *shared_memory_10 = reinterpret_cast<uint32*>(&dynamic_shared_mem[0]);
// Shared array size: 1, 4 bytes
uint32 *shared_memory_11 = reinterpret_cast<uint32*>(&dynamic_shared_mem[16432]);
uint32 l_mut_376;
uint32 l_mut_389;
uint32 l_mut_393;
uint32 l_mut_397;
uint32 l_mut_400;
const uint32 l_0 = blockIdxGlobal / info.scalars_uint32[4];
const uint32 l_1 = blockIdxGlobal % info.scalars_uint32[4];
const uint32 l_2 = info.scalars_uint32[0] + l_0;
const uint32 l_3 = l_1 * info.scalars_uint32[3];
const uint32 l_4 = l_3 + info.scalars_uint32[3];
const bool l_5 = l_4 < info.scalars_uint32[2];
const uint32 l_6 = (l_5) ? l_4 : info.scalars_uint32[2];
const uint32 l_7 = l_2 * info.scalars_uint32[4];
const uint32 l_8 = l_7 + l_1;
const uint32 l_9 = l_0 * info.scalars_uint32[2];
const uint32 l_12 = l_8 * uint32(21);
const uint32 l_13 = l_8 * uint32(21);
const uint32 l_14 = buffer_6[l_13];
const uint32 l_15 = l_13 + uint32(10);
const uint32 l_16 = buffer_6[l_15];
const uint32 l_17 = l_16 & uint32(2147483648);
const bool l_18 = l_17 == uint32(0);
const uint32 l_19 = l_16 ^ uint32(4294967295);
const uint32 l_20 = l_16 ^ uint32(2147483648);
const uint32 l_21 = (l_18) ? l_19 : l_20;
const bool l_22 = l_16 == uint32(4294967295);
const uint32 l_23 = (l_22) ? uint32(2143289344) : l_21;
const float l_24 = reinterpret_cast<float const&>(l_23);
const bool l_25 = info.scalars_uint32[5] != uint32(0);
const bool l_26 = l_14 != uint32(10);
const bool l_27 = l_25 || l_26;
const uint32 l_28 = threadIdx.x * uint32(4);
const uint32 l_29 = l_3 + l_28;
const bool l_30 = l_29 < l_6;
const uint32 l_31 = (l_30) ? l_29 : uint32(0);
const uint32 l_32 = info.scalars_uint32[1] + l_31;
const uint32 l_33 = l_9 + l_31;
const uint32 l_34 = l_32 + uint32(1);
const uint32 l_35 = l_32 + uint32(2);
const uint32 l_36 = l_32 + uint32(3);
const uint32 l_37 = l_33 / uint32(4);
 float_4 *_tmp_0 = reinterpret_cast< float_4*>(buffer_5);
const float_4 l_38 = _tmp_0[l_37];
const float l_39 = l_38.i_0;
const float l_40 = l_38.i_1;
const float l_41 = l_38.i_2;
const float l_42 = l_38.i_3;
const uint32 l_43 = l_32 / uint32(4);
 const float_4 *_tmp_1 = reinterpret_cast< const float_4*>(buffer_2);
const float_4 l_44 = _tmp_1[l_43];
const float l_45 = l_44.i_0;
const float l_46 = l_44.i_1;
const float l_47 = l_44.i_2;
const float l_48 = l_44.i_3;
const float l_49 = l_39 * float(2.0);
const float l_50 = l_40 * float(2.0);
const float l_51 = l_41 * float(2.0);
const float l_52 = l_42 * float(2.0);
const float l_53 = l_45 - l_49;
const float l_54 = l_46 - l_50;
const float l_55 = l_47 - l_51;
const float l_56 = l_48 - l_52;
const bool l_57 = l_53 > l_24;
const bool l_58 = !l_57;
const bool l_59 = l_27 || l_58;
const bool l_60 = l_54 > l_24;
const bool l_61 = !l_60;
const bool l_62 = l_59 || l_61;
const bool l_63 = l_55 > l_24;
const bool l_64 = !l_63;
const bool l_65 = l_62 || l_64;
const bool l_66 = l_56 > l_24;
const bool l_67 = !l_66;
const bool l_68 = l_65 || l_67;
const uint32 l_69 = l_29 + uint32(1024);
const bool l_70 = l_69 < l_6;
const uint32 l_71 = (l_70) ? l_69 : uint32(0);
const uint32 l_72 = info.scalars_uint32[1] + l_71;
const uint32 l_73 = l_9 + l_71;
const uint32 l_74 = l_72 + uint32(1);
const uint32 l_75 = l_72 + uint32(2);
const uint32 l_76 = l_72 + uint32(3);
const uint32 l_77 = l_73 / uint32(4);
 float_4 *_tmp_2 = reinterpret_cast< float_4*>(buffer_5);
const float_4 l_78 = _tmp_2[l_77];
const float l_79 = l_78.i_0;
const float l_80 = l_78.i_1;
const float l_81 = l_78.i_2;
const float l_82 = l_78.i_3;
const uint32 l_83 = l_72 / uint32(4);
 const float_4 *_tmp_3 = reinterpret_cast< const float_4*>(buffer_2);
const float_4 l_84 = _tmp_3[l_83];
const float l_85 = l_84.i_0;
const float l_86 = l_84.i_1;
const float l_87 = l_84.i_2;
const float l_88 = l_84.i_3;
const float l_89 = l_79 * float(2.0);
const float l_90 = l_80 * float(2.0);
const float l_91 = l_81 * float(2.0);
const float l_92 = l_82 * float(2.0);
const float l_93 = l_85 - l_89;
const float l_94 = l_86 - l_90;
const float l_95 = l_87 - l_91;
const float l_96 = l_88 - l_92;
const bool l_97 = l_93 > l_24;
const bool l_98 = !l_97;
const bool l_99 = l_68 || l_98;
const bool l_100 = l_94 > l_24;
const bool l_101 = !l_100;
const bool l_102 = l_99 || l_101;
const bool l_103 = l_95 > l_24;
const bool l_104 = !l_103;
const bool l_105 = l_102 || l_104;
const bool l_106 = l_96 > l_24;
const bool l_107 = !l_106;
const bool l_108 = l_105 || l_107;
const uint32 l_109 = l_29 + uint32(2048);
const bool l_110 = l_109 < l_6;
const uint32 l_111 = (l_110) ? l_109 : uint32(0);
const uint32 l_112 = info.scalars_uint32[1] + l_111;
const uint32 l_113 = l_9 + l_111;
const uint32 l_114 = l_112 + uint32(1);
const uint32 l_115 = l_112 + uint32(2);
const uint32 l_116 = l_112 + uint32(3);
const uint32 l_117 = l_113 / uint32(4);
 float_4 *_tmp_4 = reinterpret_cast< float_4*>(buffer_5);
const float_4 l_118 = _tmp_4[l_117];
const float l_119 = l_118.i_0;
const float l_120 = l_118.i_1;
const float l_121 = l_118.i_2;
const float l_122 = l_118.i_3;
const uint32 l_123 = l_112 / uint32(4);
 const float_4 *_tmp_5 = reinterpret_cast< const float_4*>(buffer_2);
const float_4 l_124 = _tmp_5[l_123];
const float l_125 = l_124.i_0;
const float l_126 = l_124.i_1;
const float l_127 = l_124.i_2;
const float l_128 = l_124.i_3;
const float l_129 = l_119 * float(2.0);
const float l_130 = l_120 * float(2.0);
const float l_131 = l_121 * float(2.0);
const float l_132 = l_122 * float(2.0);
const float l_133 = l_125 - l_129;
const float l_134 = l_126 - l_130;
const float l_135 = l_127 - l_131;
const float l_136 = l_128 - l_132;
const bool l_137 = l_133 > l_24;
const bool l_138 = !l_137;
const bool l_139 = l_108 || l_138;
const bool l_140 = l_134 > l_24;
const bool l_141 = !l_140;
const bool l_142 = l_139 || l_141;
const bool l_143 = l_135 > l_24;
const bool l_144 = !l_143;
const bool l_145 = l_142 || l_144;
const bool l_146 = l_136 > l_24;
const bool l_147 = !l_146;
const bool l_148 = l_145 || l_147;
const uint32 l_149 = l_29 + uint32(3072);
const bool l_150 = l_149 < l_6;
const uint32 l_151 = (l_150) ? l_149 : uint32(0);
const uint32 l_152 = info.scalars_uint32[1] + l_151;
const uint32 l_153 = l_9 + l_151;
const uint32 l_154 = l_152 + uint32(1);
const uint32 l_155 = l_152 + uint32(2);
const uint32 l_156 = l_152 + uint32(3);
const uint32 l_157 = l_153 / uint32(4);
 float_4 *_tmp_6 = reinterpret_cast< float_4*>(buffer_5);
const float_4 l_158 = _tmp_6[l_157];
const float l_159 = l_158.i_0;
const float l_160 = l_158.i_1;
const float l_161 = l_158.i_2;
const float l_162 = l_158.i_3;
const uint32 l_163 = l_152 / uint32(4);
 const float_4 *_tmp_7 = reinterpret_cast< const float_4*>(buffer_2);
const float_4 l_164 = _tmp_7[l_163];
const float l_165 = l_164.i_0;
const float l_166 = l_164.i_1;
const float l_167 = l_164.i_2;
const float l_168 = l_164.i_3;
const float l_169 = l_159 * float(2.0);
const float l_170 = l_160 * float(2.0);
const float l_171 = l_161 * float(2.0);
const float l_172 = l_162 * float(2.0);
const float l_173 = l_165 - l_169;
const float l_174 = l_166 - l_170;
const float l_175 = l_167 - l_171;
const float l_176 = l_168 - l_172;
const bool l_177 = l_173 > l_24;
const bool l_178 = !l_177;
const bool l_179 = l_148 || l_178;
const bool l_180 = l_174 > l_24;
const bool l_181 = !l_180;
const bool l_182 = l_179 || l_181;
const bool l_183 = l_175 > l_24;
const bool l_184 = !l_183;
const bool l_185 = l_182 || l_184;
const bool l_186 = l_176 > l_24;
const bool l_187 = !l_186;
const bool l_188 = l_185 || l_187;
const bool l_189 = threadIdx.x == uint32(0);
if (l_189) {
shared_memory_10[uint32(4096)] = uint32(0);
}
__syncthreads();

if (l_188) {
shared_memory_10[uint32(4096)] = uint32(1);
}
__syncthreads();

const uint32 l_190 = shared_memory_10[uint32(4096)];
const bool l_191 = l_190 != uint32(0);
if (l_191) {
__syncthreads();

const bool l_192 = threadIdx.x == uint32(0);
if (l_192) {
const bool l_193 = info.scalars_uint32[5] == uint32(0);
if (l_193) {
const uint32 l_194 = buffer_6[l_12];
uint32* l_195 = &shared_memory_11[uint32(0)];
uint32 _tmp_8 = atomicExch(l_195, l_194);
shared_memory_10[uint32(4096)] = uint32(0);
shared_memory_10[uint32(4097)] = uint32(0);
shared_memory_10[uint32(4098)] = l_194;
shared_memory_10[uint32(4099)] = l_194;
shared_memory_10[uint32(4100)] = uint32(0);
shared_memory_10[uint32(4101)] = uint32(4294967295);
shared_memory_10[uint32(4102)] = uint32(4294967295);
shared_memory_10[uint32(4103)] = uint32(4294967295);
const uint32 l_196 = uint32(4294967295) & uint32(2147483648);
const bool l_197 = l_196 == uint32(0);
const uint32 l_198 = uint32(4294967295) ^ uint32(4294967295);
const uint32 l_199 = uint32(4294967295) ^ uint32(2147483648);
const uint32 l_200 = (l_197) ? l_198 : l_199;
const bool l_201 = uint32(4294967295) == uint32(4294967295);
const uint32 l_202 = (l_201) ? uint32(2143289344) : l_200;
shared_memory_10[uint32(4104)] = l_202;
const bool l_203 = l_194 == uint32(10);
if (l_203) {
const uint32 l_204 = l_12 + uint32(10);
const uint32 l_205 = buffer_6[l_204];
const uint32 l_206 = l_12 + uint32(20);
const uint32 l_207 = buffer_6[l_206];
shared_memory_10[uint32(4101)] = l_205;
shared_memory_10[uint32(4102)] = uint32(0);
shared_memory_10[uint32(4103)] = l_207;
const uint32 l_208 = l_205 & uint32(2147483648);
const bool l_209 = l_208 == uint32(0);
const uint32 l_210 = l_205 ^ uint32(4294967295);
const uint32 l_211 = l_205 ^ uint32(2147483648);
const uint32 l_212 = (l_209) ? l_210 : l_211;
const bool l_213 = l_205 == uint32(4294967295);
const uint32 l_214 = (l_213) ? uint32(2143289344) : l_212;
shared_memory_10[uint32(4104)] = l_214;
}
} else {
uint32* l_215 = &shared_memory_11[uint32(0)];
uint32 _tmp_9 = atomicExch(l_215, uint32(0));
shared_memory_10[uint32(4096)] = uint32(0);
shared_memory_10[uint32(4097)] = uint32(0);
shared_memory_10[uint32(4098)] = uint32(0);
shared_memory_10[uint32(4099)] = uint32(0);
shared_memory_10[uint32(4100)] = uint32(0);
shared_memory_10[uint32(4101)] = uint32(4294967295);
shared_memory_10[uint32(4102)] = uint32(4294967295);
shared_memory_10[uint32(4103)] = uint32(4294967295);
const uint32 l_216 = uint32(4294967295) & uint32(2147483648);
const bool l_217 = l_216 == uint32(0);
const uint32 l_218 = uint32(4294967295) ^ uint32(4294967295);
const uint32 l_219 = uint32(4294967295) ^ uint32(2147483648);
const uint32 l_220 = (l_217) ? l_218 : l_219;
const bool l_221 = uint32(4294967295) == uint32(4294967295);
const uint32 l_222 = (l_221) ? uint32(2143289344) : l_220;
shared_memory_10[uint32(4104)] = l_222;
}
}
__syncthreads();


for (uint32 l_mut_223 = l_3; l_mut_223 < l_6; l_mut_223 += uint32(1024)) {
const uint32 l_224 = l_mut_223 - l_3;
const uint32 l_225 = l_224 / uint32(1024);
const uint32 l_226 = l_225 % uint32(2);
const uint32 l_227 = shared_memory_10[uint32(4104)];
const float l_228 = reinterpret_cast<float const&>(l_227);
const uint32 l_229 = threadIdx.x * uint32(4);
const uint32 l_230 = l_mut_223 + l_229;
const bool l_231 = l_230 < l_6;
if (l_231) {
const uint32 l_232 = info.scalars_uint32[1] + l_230;
const uint32 l_233 = l_9 + l_230;
const uint32 l_234 = l_232 + uint32(1);
const uint32 l_235 = l_232 + uint32(2);
const uint32 l_236 = l_232 + uint32(3);
const uint32 l_237 = l_233 / uint32(4);
 float_4 *_tmp_10 = reinterpret_cast< float_4*>(buffer_5);
const float_4 l_238 = _tmp_10[l_237];
const float l_239 = l_238.i_0;
const float l_240 = l_238.i_1;
const float l_241 = l_238.i_2;
const float l_242 = l_238.i_3;
const uint32 l_243 = l_232 / uint32(4);
 const float_4 *_tmp_11 = reinterpret_cast< const float_4*>(buffer_2);
const float_4 l_244 = _tmp_11[l_243];
const float l_245 = l_244.i_0;
const float l_246 = l_244.i_1;
const float l_247 = l_244.i_2;
const float l_248 = l_244.i_3;
const float l_249 = l_239 * float(2.0);
const float l_250 = l_240 * float(2.0);
const float l_251 = l_241 * float(2.0);
const float l_252 = l_242 * float(2.0);
const float l_253 = l_245 - l_249;
const float l_254 = l_246 - l_250;
const float l_255 = l_247 - l_251;
const float l_256 = l_248 - l_252;
const bool l_257 = l_253 > l_228;
const bool l_258 = !l_257;
if (l_258) {
const uint32 l_259 = reinterpret_cast<uint32 const&>(l_253);
const uint32 l_260 = l_259 & uint32(2147483648);
const bool l_261 = l_260 == uint32(0);
const uint32 l_262 = l_259 & uint32(2147483647);
const bool l_263 = l_262 == uint32(0);
const bool l_264 = l_261 || l_263;
const uint32 l_265 = l_259 | uint32(2147483648);
const uint32 l_266 = l_259 ^ uint32(4294967295);
const uint32 l_267 = (l_264) ? l_265 : l_266;
const uint32 l_268 = l_259 & uint32(2147483647);
const bool l_269 = l_268 > uint32(2139095040);
const uint32 l_270 = (l_269) ? uint32(4294967295) : l_267;
const uint32 l_271 = shared_memory_10[uint32(4101)];
const uint32 l_272 = shared_memory_10[uint32(4102)];
const uint32 l_273 = shared_memory_10[uint32(4103)];
const bool l_274 = l_232 < l_273;
const bool l_275 = l_270 < l_271;
const bool l_276 = l_270 == l_271;
const bool l_277 = l_276 && l_274;
const bool l_278 = l_275 || l_277;
if (l_278) {
uint32* l_279 = &shared_memory_11[uint32(0)];
const uint32 l_280 = atomicAdd(l_279, uint32(1));
shared_memory_10[l_280] = l_270;
const uint32 l_281 = l_280 + uint32(2048);
shared_memory_10[l_281] = l_232;
const uint32 l_282 = l_226 + uint32(4096);
shared_memory_10[l_282] = uint32(1);
}
}
const uint32 l_283 = l_232 + uint32(1);
const bool l_284 = l_254 > l_228;
const bool l_285 = !l_284;
if (l_285) {
const uint32 l_286 = reinterpret_cast<uint32 const&>(l_254);
const uint32 l_287 = l_286 & uint32(2147483648);
const bool l_288 = l_287 == uint32(0);
const uint32 l_289 = l_286 & uint32(2147483647);
const bool l_290 = l_289 == uint32(0);
const bool l_291 = l_288 || l_290;
const uint32 l_292 = l_286 | uint32(2147483648);
const uint32 l_293 = l_286 ^ uint32(4294967295);
const uint32 l_294 = (l_291) ? l_292 : l_293;
const uint32 l_295 = l_286 & uint32(2147483647);
const bool l_296 = l_295 > uint32(2139095040);
const uint32 l_297 = (l_296) ? uint32(4294967295) : l_294;
const uint32 l_298 = shared_memory_10[uint32(4101)];
const uint32 l_299 = shared_memory_10[uint32(4102)];
const uint32 l_300 = shared_memory_10[uint32(4103)];
const bool l_301 = l_283 < l_300;
const bool l_302 = l_297 < l_298;
const bool l_303 = l_297 == l_298;
const bool l_304 = l_303 && l_301;
const bool l_305 = l_302 || l_304;
if (l_305) {
uint32* l_306 = &shared_memory_11[uint32(0)];
const uint32 l_307 = atomicAdd(l_306, uint32(1));
shared_memory_10[l_307] = l_297;
const uint32 l_308 = l_307 + uint32(2048);
shared_memory_10[l_308] = l_283;
const uint32 l_309 = l_226 + uint32(4096);
shared_memory_10[l_309] = uint32(1);
}
}
const uint32 l_310 = l_232 + uint32(2);
const bool l_311 = l_255 > l_228;
const bool l_312 = !l_311;
if (l_312) {
const uint32 l_313 = reinterpret_cast<uint32 const&>(l_255);
const uint32 l_314 = l_313 & uint32(2147483648);
const bool l_315 = l_314 == uint32(0);
const uint32 l_316 = l_313 & uint32(2147483647);
const bool l_317 = l_316 == uint32(0);
const bool l_318 = l_315 || l_317;
const uint32 l_319 = l_313 | uint32(2147483648);
const uint32 l_320 = l_313 ^ uint32(4294967295);
const uint32 l_321 = (l_318) ? l_319 : l_320;
const uint32 l_322 = l_313 & uint32(2147483647);
const bool l_323 = l_322 > uint32(2139095040);
const uint32 l_324 = (l_323) ? uint32(4294967295) : l_321;
const uint32 l_325 = shared_memory_10[uint32(4101)];
const uint32 l_326 = shared_memory_10[uint32(4102)];
const uint32 l_327 = shared_memory_10[uint32(4103)];
const bool l_328 = l_310 < l_327;
const bool l_329 = l_324 < l_325;
const bool l_330 = l_324 == l_325;
const bool l_331 = l_330 && l_328;
const bool l_332 = l_329 || l_331;
if (l_332) {
uint32* l_333 = &shared_memory_11[uint32(0)];
const uint32 l_334 = atomicAdd(l_333, uint32(1));
shared_memory_10[l_334] = l_324;
const uint32 l_335 = l_334 + uint32(2048);
shared_memory_10[l_335] = l_310;
const uint32 l_336 = l_226 + uint32(4096);
shared_memory_10[l_336] = uint32(1);
}
}
const uint32 l_337 = l_232 + uint32(3);
const bool l_338 = l_256 > l_228;
const bool l_339 = !l_338;
if (l_339) {
const uint32 l_340 = reinterpret_cast<uint32 const&>(l_256);
const uint32 l_341 = l_340 & uint32(2147483648);
const bool l_342 = l_341 == uint32(0);
const uint32 l_343 = l_340 & uint32(2147483647);
const bool l_344 = l_343 == uint32(0);
const bool l_345 = l_342 || l_344;
const uint32 l_346 = l_340 | uint32(2147483648);
const uint32 l_347 = l_340 ^ uint32(4294967295);
const uint32 l_348 = (l_345) ? l_346 : l_347;
const uint32 l_349 = l_340 & uint32(2147483647);
const bool l_350 = l_349 > uint32(2139095040);
const uint32 l_351 = (l_350) ? uint32(4294967295) : l_348;
const uint32 l_352 = shared_memory_10[uint32(4101)];
const uint32 l_353 = shared_memory_10[uint32(4102)];
const uint32 l_354 = shared_memory_10[uint32(4103)];
const bool l_355 = l_337 < l_354;
const bool l_356 = l_351 < l_352;
const bool l_357 = l_351 == l_352;
const bool l_358 = l_357 && l_355;
const bool l_359 = l_356 || l_358;
if (l_359) {
uint32* l_360 = &shared_memory_11[uint32(0)];
const uint32 l_361 = atomicAdd(l_360, uint32(1));
shared_memory_10[l_361] = l_351;
const uint32 l_362 = l_361 + uint32(2048);
shared_memory_10[l_362] = l_337;
const uint32 l_363 = l_226 + uint32(4096);
shared_memory_10[l_363] = uint32(1);
}
}
}
__syncthreads();

const uint32 l_364 = uint32(4096) + l_226;
const uint32 l_365 = shared_memory_10[l_364];
const bool l_366 = l_365 != uint32(0);
if (l_366) {
const bool l_367 = threadIdx.x == uint32(0);
if (l_367) {
uint32* l_368 = &shared_memory_11[uint32(0)];
const uint32 l_369 = atomicAdd(l_368, uint32(0));
shared_memory_10[uint32(4098)] = l_369;
}
__syncthreads();

const bool l_370 = threadIdx.x == uint32(0);
if (l_370) {
shared_memory_10[l_364] = uint32(0);
}
const uint32 l_371 = shared_memory_10[uint32(4098)];
const bool l_372 = l_371 >= uint32(138);
if (l_372) {
const uint32 l_373 = shared_memory_10[uint32(4100)];
const bool l_374 = l_373 == uint32(0);
if (l_374) {
const uint32 l_375 = shared_memory_10[uint32(4099)];
l_mut_376 = threadIdx.x;
while (true) {
const bool l_377 = l_mut_376 < l_375;
const bool l_378 = !l_377;
if (l_378) {
break;}
const uint32 l_379 = l_12 + uint32(1);
const uint32 l_380 = l_379 + l_mut_376;
const uint32 l_381 = buffer_6[l_380];
shared_memory_10[l_mut_376] = l_381;
const uint32 l_382 = l_mut_376 + uint32(2048);
const uint32 l_383 = l_380 + uint32(10);
const uint32 l_384 = buffer_6[l_383];
shared_memory_10[l_382] = l_384;
l_mut_376 = l_mut_376 + uint32(256);
}
}
const uint32 l_385 = shared_memory_10[uint32(4098)];
l_mut_376 = uint32(2);
while (true) {
const bool l_386 = l_mut_376 < l_385;
const bool l_387 = !l_386;
if (l_387) {
break;}
l_mut_376 = l_mut_376 * uint32(2);
}
const uint32 l_388 = l_385 + threadIdx.x;
l_mut_389 = l_388;
while (true) {
const bool l_390 = l_mut_389 < l_mut_376;
const bool l_391 = !l_390;
if (l_391) {
break;}
shared_memory_10[l_mut_389] = uint32(4294967295);
const uint32 l_392 = l_mut_389 + uint32(2048);
shared_memory_10[l_392] = uint32(4294967295);
l_mut_389 = l_mut_389 + uint32(256);
}
__syncthreads();

l_mut_393 = uint32(2);
while (true) {
const bool l_394 = l_mut_393 <= l_mut_376;
const bool l_395 = !l_394;
if (l_395) {
break;}
const uint32 l_396 = l_mut_393 / uint32(2);
l_mut_397 = l_396;
while (true) {
const bool l_398 = l_mut_397 > uint32(0);
const bool l_399 = !l_398;
if (l_399) {
break;}
l_mut_400 = threadIdx.x;
while (true) {
const uint32 l_401 = l_mut_376 / uint32(2);
const bool l_402 = l_mut_400 < l_401;
const bool l_403 = !l_402;
if (l_403) {
break;}
const uint32 l_404 = uint32(2) * l_mut_400;
const uint32 l_405 = l_mut_397 - uint32(1);
const uint32 l_406 = l_mut_400 & l_405;
const uint32 l_407 = l_404 - l_406;
const uint32 l_408 = l_mut_376 - uint32(1);
const uint32 l_409 = l_407 & l_408;
const uint32 l_410 = l_409 & l_mut_393;
const bool l_411 = l_410 == uint32(0);
const uint32 l_412 = l_407 + l_mut_397;
const uint32 l_413 = shared_memory_10[l_407];
const uint32 l_414 = shared_memory_10[l_412];
const uint32 l_415 = l_407 + uint32(2048);
const uint32 l_416 = shared_memory_10[l_415];
const uint32 l_417 = l_412 + uint32(2048);
const uint32 l_418 = shared_memory_10[l_417];
const bool l_419 = l_418 < l_416;
const bool l_420 = l_414 < l_413;
const bool l_421 = l_414 == l_413;
const bool l_422 = l_421 && l_419;
const bool l_423 = l_420 || l_422;
const bool l_424 = l_423 == l_411;
if (l_424) {
shared_memory_10[l_407] = l_414;
const uint32 l_425 = l_407 + uint32(2048);
shared_memory_10[l_425] = l_418;
shared_memory_10[l_412] = l_413;
const uint32 l_426 = l_412 + uint32(2048);
shared_memory_10[l_426] = l_416;
}
l_mut_400 = l_mut_400 + uint32(256);
}
__syncthreads();

l_mut_397 = l_mut_397 / uint32(2);
}
l_mut_393 = l_mut_393 * uint32(2);
}
const bool l_427 = threadIdx.x == uint32(0);
if (l_427) {
const bool l_428 = l_385 >= uint32(10);
if (l_428) {
const uint32 l_429 = shared_memory_10[uint32(9)];
const uint32 l_430 = shared_memory_10[uint32(2057)];
shared_memory_10[uint32(4101)] = l_429;
shared_memory_10[uint32(4102)] = uint32(0);
shared_memory_10[uint32(4103)] = l_430;
const uint32 l_431 = l_429 & uint32(2147483648);
const bool l_432 = l_431 == uint32(0);
const uint32 l_433 = l_429 ^ uint32(4294967295);
const uint32 l_434 = l_429 ^ uint32(2147483648);
const uint32 l_435 = (l_432) ? l_433 : l_434;
const bool l_436 = l_429 == uint32(4294967295);
const uint32 l_437 = (l_436) ? uint32(2143289344) : l_435;
shared_memory_10[uint32(4104)] = l_437;
shared_memory_10[uint32(4098)] = uint32(10);
uint32* l_438 = &shared_memory_11[uint32(0)];
uint32 _tmp_12 = atomicExch(l_438, uint32(10));
}
shared_memory_10[uint32(4100)] = uint32(1);
}
__syncthreads();

}
}
}
__syncthreads();

const bool l_439 = threadIdx.x == uint32(0);
if (l_439) {
uint32* l_440 = &shared_memory_11[uint32(0)];
const uint32 l_441 = atomicAdd(l_440, uint32(0));
shared_memory_10[uint32(4098)] = l_441;
}
__syncthreads();

const uint32 l_442 = shared_memory_10[uint32(4098)];
const uint32 l_443 = shared_memory_10[uint32(4099)];
const bool l_444 = l_442 != l_443;
const uint32 l_445 = shared_memory_10[uint32(4100)];
const bool l_446 = l_445 != uint32(0);
const bool l_447 = l_444 || l_446;
if (l_447) {
const uint32 l_448 = shared_memory_10[uint32(4100)];
const bool l_449 = l_448 == uint32(0);
if (l_449) {
const uint32 l_450 = shared_memory_10[uint32(4099)];
l_mut_400 = threadIdx.x;
while (true) {
const bool l_451 = l_mut_400 < l_450;
const bool l_452 = !l_451;
if (l_452) {
break;}
const uint32 l_453 = l_12 + uint32(1);
const uint32 l_454 = l_453 + l_mut_400;
const uint32 l_455 = buffer_6[l_454];
shared_memory_10[l_mut_400] = l_455;
const uint32 l_456 = l_mut_400 + uint32(2048);
const uint32 l_457 = l_454 + uint32(10);
const uint32 l_458 = buffer_6[l_457];
shared_memory_10[l_456] = l_458;
l_mut_400 = l_mut_400 + uint32(256);
}
}
const uint32 l_459 = shared_memory_10[uint32(4098)];
l_mut_400 = uint32(2);
while (true) {
const bool l_460 = l_mut_400 < l_459;
const bool l_461 = !l_460;
if (l_461) {
break;}
l_mut_400 = l_mut_400 * uint32(2);
}
const uint32 l_462 = l_459 + threadIdx.x;
l_mut_397 = l_462;
while (true) {
const bool l_463 = l_mut_397 < l_mut_400;
const bool l_464 = !l_463;
if (l_464) {
break;}
shared_memory_10[l_mut_397] = uint32(4294967295);
const uint32 l_465 = l_mut_397 + uint32(2048);
shared_memory_10[l_465] = uint32(4294967295);
l_mut_397 = l_mut_397 + uint32(256);
}
__syncthreads();

l_mut_393 = uint32(2);
while (true) {
const bool l_466 = l_mut_393 <= l_mut_400;
const bool l_467 = !l_466;
if (l_467) {
break;}
const uint32 l_468 = l_mut_393 / uint32(2);
l_mut_389 = l_468;
while (true) {
const bool l_469 = l_mut_389 > uint32(0);
const bool l_470 = !l_469;
if (l_470) {
break;}
l_mut_376 = threadIdx.x;
while (true) {
const uint32 l_471 = l_mut_400 / uint32(2);
const bool l_472 = l_mut_376 < l_471;
const bool l_473 = !l_472;
if (l_473) {
break;}
const uint32 l_474 = uint32(2) * l_mut_376;
const uint32 l_475 = l_mut_389 - uint32(1);
const uint32 l_476 = l_mut_376 & l_475;
const uint32 l_477 = l_474 - l_476;
const uint32 l_478 = l_mut_400 - uint32(1);
const uint32 l_479 = l_477 & l_478;
const uint32 l_480 = l_479 & l_mut_393;
const bool l_481 = l_480 == uint32(0);
const uint32 l_482 = l_477 + l_mut_389;
const uint32 l_483 = shared_memory_10[l_477];
const uint32 l_484 = shared_memory_10[l_482];
const uint32 l_485 = l_477 + uint32(2048);
const uint32 l_486 = shared_memory_10[l_485];
const uint32 l_487 = l_482 + uint32(2048);
const uint32 l_488 = shared_memory_10[l_487];
const bool l_489 = l_488 < l_486;
const bool l_490 = l_484 < l_483;
const bool l_491 = l_484 == l_483;
const bool l_492 = l_491 && l_489;
const bool l_493 = l_490 || l_492;
const bool l_494 = l_493 == l_481;
if (l_494) {
shared_memory_10[l_477] = l_484;
const uint32 l_495 = l_477 + uint32(2048);
shared_memory_10[l_495] = l_488;
shared_memory_10[l_482] = l_483;
const uint32 l_496 = l_482 + uint32(2048);
shared_memory_10[l_496] = l_486;
}
l_mut_376 = l_mut_376 + uint32(256);
}
__syncthreads();

l_mut_389 = l_mut_389 / uint32(2);
}
l_mut_393 = l_mut_393 * uint32(2);
}
const bool l_497 = threadIdx.x == uint32(0);
if (l_497) {
const bool l_498 = l_459 >= uint32(10);
if (l_498) {
const uint32 l_499 = shared_memory_10[uint32(9)];
const uint32 l_500 = shared_memory_10[uint32(2057)];
shared_memory_10[uint32(4101)] = l_499;
shared_memory_10[uint32(4102)] = uint32(0);
shared_memory_10[uint32(4103)] = l_500;
const uint32 l_501 = l_499 & uint32(2147483648);
const bool l_502 = l_501 == uint32(0);
const uint32 l_503 = l_499 ^ uint32(4294967295);
const uint32 l_504 = l_499 ^ uint32(2147483648);
const uint32 l_505 = (l_502) ? l_503 : l_504;
const bool l_506 = l_499 == uint32(4294967295);
const uint32 l_507 = (l_506) ? uint32(2143289344) : l_505;
shared_memory_10[uint32(4104)] = l_507;
shared_memory_10[uint32(4098)] = uint32(10);
uint32* l_508 = &shared_memory_11[uint32(0)];
uint32 _tmp_13 = atomicExch(l_508, uint32(10));
}
shared_memory_10[uint32(4100)] = uint32(1);
}
__syncthreads();

const uint32 l_509 = shared_memory_10[uint32(4098)];
l_mut_400 = threadIdx.x;
const bool l_510 = l_mut_400 == uint32(0);
if (l_510) {
buffer_6[l_12] = l_509;
}
while (true) {
const bool l_511 = l_mut_400 < l_509;
const bool l_512 = !l_511;
if (l_512) {
break;}
const uint32 l_513 = l_12 + uint32(1);
const uint32 l_514 = l_513 + l_mut_400;
const uint32 l_515 = shared_memory_10[l_mut_400];
buffer_6[l_514] = l_515;
const uint32 l_516 = l_514 + uint32(10);
const uint32 l_517 = l_mut_400 + uint32(2048);
const uint32 l_518 = shared_memory_10[l_517];
buffer_6[l_516] = l_518;
l_mut_400 = l_mut_400 + uint32(256);
}
}
}

}