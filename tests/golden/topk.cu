extern "C" __global__ void __launch_bounds__(256)select_rows (
    const float* __restrict__ buffer_0, float* buffer_1, int32* buffer_2, const __grid_constant__ info_st info
) {
await_kernel_before();
uint32 blockIdxGlobal = (blockIdx.z * gridDim.y * gridDim.x) + (blockIdx.y * gridDim.x) + blockIdx.x;
extern __shared__ __align__(4) uint8 dynamic_shared_mem[];
// Shared array size: 4105, 16420 bytes
uint32 *shared_memory_7 = reinterpret_cast<uint32*>(&dynamic_shared_mem[0]);
// Shared array size: 1, 4 bytes
uint32 *shared_memory_8 = reinterpret_cast<uint32*>(&dynamic_shared_mem[16432]);
// Shared array size: 128, 512 bytes
uint32 *shared_memory_9 = reinterpret_cast<uint32*>(&dynamic_shared_mem[16448]);
uint32 l_mut_93;
uint32 l_mut_94;
uint32 l_mut_259;
uint32 l_mut_263;
uint32 l_mut_266;
const uint32 l_0 = blockIdxGlobal / info.scalars_uint32[2];
const uint32 l_1 = blockIdxGlobal % info.scalars_uint32[2];
const uint32 l_2 = l_1 * info.scalars_uint32[1];
const uint32 l_3 = l_2 + info.scalars_uint32[1];
const bool l_4 = l_3 < info.scalars_uint32[0];
const uint32 l_5 = (l_4) ? l_3 : info.scalars_uint32[0];
const uint32 l_6 = l_0 * info.scalars_uint32[0];
const bool l_10 = threadIdx.x < uint32(128);
if (l_10) {
uint32* l_11 = &shared_memory_9[threadIdx.x];
uint32 _tmp_0 = atomicExch(l_11, uint32(4294967295));
}
const bool l_12 = threadIdx.x == uint32(0);
if (l_12) {
uint32* l_13 = &shared_memory_8[uint32(0)];
uint32 _tmp_1 = atomicExch(l_13, uint32(0));
shared_memory_7[uint32(4096)] = uint32(0);
shared_memory_7[uint32(4097)] = uint32(0);
shared_memory_7[uint32(4098)] = uint32(0);
shared_memory_7[uint32(4099)] = uint32(0);
shared_memory_7[uint32(4100)] = uint32(0);
shared_memory_7[uint32(4101)] = uint32(4294967295);
shared_memory_7[uint32(4102)] = uint32(4294967295);
shared_memory_7[uint32(4103)] = uint32(4294967295);
const uint32 l_14 = uint32(4294967295) ^ uint32(4294967295);
const uint32 l_15 = l_14 & uint32(2147483648);
const bool l_16 = l_15 == uint32(0);
const uint32 l_17 = l_14 ^ uint32(4294967295);
const uint32 l_18 = l_14 ^ uint32(2147483648);
const uint32 l_19 = (l_16) ? l_17 : l_18;
const bool l_20 = uint32(4294967295) == uint32(4294967295);
const uint32 l_21 = (l_20) ? uint32(2143289344) : l_19;
shared_memory_7[uint32(4104)] = l_21;
}
__syncthreads();

const uint32 l_22 = threadIdx.x * uint32(4);
const uint32 l_23 = l_2 + l_22;
const bool l_24 = l_23 < l_5;
if (l_24) {
const uint32 l_25 = l_6 + l_23;
const uint32 l_26 = l_25 / uint32(4);
 const float_4 *_tmp_2 = reinterpret_cast< const float_4*>(buffer_0);
const float_4 l_27 = _tmp_2[l_26];
const float l_28 = l_27.i_0;
const float l_29 = l_27.i_1;
const float l_30 = l_27.i_2;
const float l_31 = l_27.i_3;
const uint32 l_32 = reinterpret_cast<uint32 const&>(l_28);
const uint32 l_33 = l_32 & uint32(2147483648);
const bool l_34 = l_33 == uint32(0);
const uint32 l_35 = l_32 & uint32(2147483647);
const bool l_36 = l_35 == uint32(0);
const bool l_37 = l_34 || l_36;
const uint32 l_38 = l_32 | uint32(2147483648);
const uint32 l_39 = l_32 ^ uint32(4294967295);
const uint32 l_40 = (l_37) ? l_38 : l_39;
const uint32 l_41 = l_40 ^ uint32(4294967295);
const uint32 l_42 = l_32 & uint32(2147483647);
const bool l_43 = l_42 > uint32(2139095040);
const uint32 l_44 = (l_43) ? uint32(4294967295) : l_41;
const uint32 l_45 = reinterpret_cast<uint32 const&>(l_29);
const uint32 l_46 = l_45 & uint32(2147483648);
const bool l_47 = l_46 == uint32(0);
const uint32 l_48 = l_45 & uint32(2147483647);
const bool l_49 = l_48 == uint32(0);
const bool l_50 = l_47 || l_49;
const uint32 l_51 = l_45 | uint32(2147483648);
const uint32 l_52 = l_45 ^ uint32(4294967295);
const uint32 l_53 = (l_50) ? l_51 : l_52;
const uint32 l_54 = l_53 ^ uint32(4294967295);
const uint32 l_55 = l_45 & uint32(2147483647);
const bool l_56 = l_55 > uint32(2139095040);
const uint32 l_57 = (l_56) ? uint32(4294967295) : l_54;
const uint32 l_58 = reinterpret_cast<uint32 const&>(l_30);
const uint32 l_59 = l_58 & uint32(2147483648);
const bool l_60 = l_59 == uint32(0);
const uint32 l_61 = l_58 & uint32(2147483647);
const bool l_62 = l_61 == uint32(0);
const bool l_63 = l_60 || l_62;
const uint32 l_64 = l_58 | uint32(2147483648);
const uint32 l_65 = l_58 ^ uint32(4294967295);
const uint32 l_66 = (l_63) ? l_64 : l_65;
const uint32 l_67 = l_66 ^ uint32(4294967295);
const uint32 l_68 = l_58 & uint32(2147483647);
const bool l_69 = l_68 > uint32(2139095040);
const uint32 l_70 = (l_69) ? uint32(4294967295) : l_67;
const uint32 l_71 = reinterpret_cast<uint32 const&>(l_31);
const uint32 l_72 = l_71 & uint32(2147483648);
const bool l_73 = l_72 == uint32(0);
const uint32 l_74 = l_71 & uint32(2147483647);
const bool l_75 = l_74 == uint32(0);
const bool l_76 = l_73 || l_75;
const uint32 l_77 = l_71 | uint32(2147483648);
const uint32 l_78 = l_71 ^ uint32(4294967295);
const uint32 l_79 = (l_76) ? l_77 : l_78;
const uint32 l_80 = l_79 ^ uint32(4294967295);
const uint32 l_81 = l_71 & uint32(2147483647);
const bool l_82 = l_81 > uint32(2139095040);
const uint32 l_83 = (l_82) ? uint32(4294967295) : l_80;
const uint32 l_84 = min(l_44, l_57);
const uint32 l_85 = min(l_84, l_70);
const uint32 l_86 = min(l_85, l_83);
const uint32 l_87 = threadIdx.x / uint32(2);
uint32* l_88 = &shared_memory_9[l_87];
const uint32 l_89 = atomicMin(l_88, l_86);
}
__syncthreads();

const bool l_90 = threadIdx.x < uint32(128);
if (l_90) {
uint32* l_91 = &shared_memory_9[threadIdx.x];
const uint32 l_92 = atomicAdd(l_91, uint32(0));
l_mut_93 = uint32(0);
l_mut_94 = uint32(0);
while (true) {
const bool l_95 = l_mut_94 < uint32(128);
const bool l_96 = !l_95;
if (l_96) {
break;}
uint32* l_97 = &shared_memory_9[l_mut_94];
const uint32 l_98 = atomicAdd(l_97, uint32(0));
const bool l_99 = l_98 < l_92;
const bool l_100 = l_98 == l_92;
const bool l_101 = l_mut_94 < threadIdx.x;
const bool l_102 = l_100 && l_101;
const bool l_103 = l_99 || l_102;
if (l_103) {
l_mut_93 = l_mut_93 + uint32(1);
}
l_mut_94 = l_mut_94 + uint32(1);
}
const bool l_104 = l_mut_93 == uint32(63);
const bool l_105 = l_92 < uint32(4294967294);
const bool l_106 = l_104 && l_105;
if (l_106) {
const uint32 l_107 = l_92 + uint32(1);
shared_memory_7[uint32(4101)] = l_107;
shared_memory_7[uint32(4102)] = uint32(0);
shared_memory_7[uint32(4103)] = uint32(0);
const uint32 l_108 = l_107 ^ uint32(4294967295);
const uint32 l_109 = l_108 & uint32(2147483648);
const bool l_110 = l_109 == uint32(0);
const uint32 l_111 = l_108 ^ uint32(4294967295);
const uint32 l_112 = l_108 ^ uint32(2147483648);
const uint32 l_113 = (l_110) ? l_111 : l_112;
const bool l_114 = l_107 == uint32(4294967295);
const uint32 l_115 = (l_114) ? uint32(2143289344) : l_113;
shared_memory_7[uint32(4104)] = l_115;
}
}
__syncthreads();


for (uint32 l_mut_116 = l_2; l_mut_116 < l_5; l_mut_116 += uint32(1024)) {
const uint32 l_117 = l_mut_116 - l_2;
const uint32 l_118 = l_117 / uint32(1024);
const uint32 l_119 = l_118 % uint32(2);
const uint32 l_120 = shared_memory_7[uint32(4104)];
const float l_121 = reinterpret_cast<float const&>(l_120);
const uint32 l_122 = threadIdx.x * uint32(4);
const uint32 l_123 = l_mut_116 + l_122;
const bool l_124 = l_123 < l_5;
if (l_124) {
const uint32 l_125 = l_6 + l_123;
const uint32 l_126 = l_125 / uint32(4);
 const float_4 *_tmp_3 = reinterpret_cast< const float_4*>(buffer_0);
const float_4 l_127 = _tmp_3[l_126];
const float l_128 = l_127.i_0;
const float l_129 = l_127.i_1;
const float l_130 = l_127.i_2;
const float l_131 = l_127.i_3;
const bool l_132 = l_128 < l_121;
const bool l_133 = !l_132;
if (l_133) {
const uint32 l_134 = reinterpret_cast<uint32 const&>(l_128);
const uint32 l_135 = l_134 & uint32(2147483648);
const bool l_136 = l_135 == uint32(0);
const uint32 l_137 = l_134 & uint32(2147483647);
const bool l_138 = l_137 == uint32(0);
const bool l_139 = l_136 || l_138;
const uint32 l_140 = l_134 | uint32(2147483648);
const uint32 l_141 = l_134 ^ uint32(4294967295);
const uint32 l_142 = (l_139) ? l_140 : l_141;
const uint32 l_143 = l_142 ^ uint32(4294967295);
const uint32 l_144 = l_134 & uint32(2147483647);
const bool l_145 = l_144 > uint32(2139095040);
const uint32 l_146 = (l_145) ? uint32(4294967295) : l_143;
const uint32 l_147 = shared_memory_7[uint32(4101)];
const uint32 l_148 = shared_memory_7[uint32(4102)];
const uint32 l_149 = shared_memory_7[uint32(4103)];
const bool l_150 = l_123 < l_149;
const bool l_151 = l_146 < l_147;
const bool l_152 = l_146 == l_147;
const bool l_153 = l_152 && l_150;
const bool l_154 = l_151 || l_153;
if (l_154) {
uint32* l_155 = &shared_memory_8[uint32(0)];
const uint32 l_156 = atomicAdd(l_155, uint32(1));
shared_memory_7[l_156] = l_146;
const uint32 l_157 = l_156 + uint32(2048);
shared_memory_7[l_157] = l_123;
const uint32 l_158 = l_119 + uint32(4096);
shared_memory_7[l_158] = uint32(1);
}
}
const uint32 l_159 = l_123 + uint32(1);
const bool l_160 = l_129 < l_121;
const bool l_161 = !l_160;
if (l_161) {
const uint32 l_162 = reinterpret_cast<uint32 const&>(l_129);
const uint32 l_163 = l_162 & uint32(2147483648);
const bool l_164 = l_163 == uint32(0);
const uint32 l_165 = l_162 & uint32(2147483647);
const bool l_166 = l_165 == uint32(0);
const bool l_167 = l_164 || l_166;
const uint32 l_168 = l_162 | uint32(2147483648);
const uint32 l_169 = l_162 ^ uint32(4294967295);
const uint32 l_170 = (l_167) ? l_168 : l_169;
const uint32 l_171 = l_170 ^ uint32(4294967295);
const uint32 l_172 = l_162 & uint32(2147483647);
const bool l_173 = l_172 > uint32(2139095040);
const uint32 l_174 = (l_173) ? uint32(4294967295) : l_171;
const uint32 l_175 = shared_memory_7[uint32(4101)];
const uint32 l_176 = shared_memory_7[uint32(4102)];
const uint32 l_177 = shared_memory_7[uint32(4103)];
const bool l_178 = l_159 < l_177;
const bool l_179 = l_174 < l_175;
const bool l_180 = l_174 == l_175;
const bool l_181 = l_180 && l_178;
const bool l_182 = l_179 || l_181;
if (l_182) {
uint32* l_183 = &shared_memory_8[uint32(0)];
const uint32 l_184 = atomicAdd(l_183, uint32(1));
shared_memory_7[l_184] = l_174;
const uint32 l_185 = l_184 + uint32(2048);
shared_memory_7[l_185] = l_159;
const uint32 l_186 = l_119 + uint32(4096);
shared_memory_7[l_186] = uint32(1);
}
}
const uint32 l_187 = l_123 + uint32(2);
const bool l_188 = l_130 < l_121;
const bool l_189 = !l_188;
if (l_189) {
const uint32 l_190 = reinterpret_cast<uint32 const&>(l_130);
const uint32 l_191 = l_190 & uint32(2147483648);
const bool l_192 = l_191 == uint32(0);
const uint32 l_193 = l_190 & uint32(2147483647);
const bool l_194 = l_193 == uint32(0);
const bool l_195 = l_192 || l_194;
const uint32 l_196 = l_190 | uint32(2147483648);
const uint32 l_197 = l_190 ^ uint32(4294967295);
const uint32 l_198 = (l_195) ? l_196 : l_197;
const uint32 l_199 = l_198 ^ uint32(4294967295);
const uint32 l_200 = l_190 & uint32(2147483647);
const bool l_201 = l_200 > uint32(2139095040);
const uint32 l_202 = (l_201) ? uint32(4294967295) : l_199;
const uint32 l_203 = shared_memory_7[uint32(4101)];
const uint32 l_204 = shared_memory_7[uint32(4102)];
const uint32 l_205 = shared_memory_7[uint32(4103)];
const bool l_206 = l_187 < l_205;
const bool l_207 = l_202 < l_203;
const bool l_208 = l_202 == l_203;
const bool l_209 = l_208 && l_206;
const bool l_210 = l_207 || l_209;
if (l_210) {
uint32* l_211 = &shared_memory_8[uint32(0)];
const uint32 l_212 = atomicAdd(l_211, uint32(1));
shared_memory_7[l_212] = l_202;
const uint32 l_213 = l_212 + uint32(2048);
shared_memory_7[l_213] = l_187;
const uint32 l_214 = l_119 + uint32(4096);
shared_memory_7[l_214] = uint32(1);
}
}
const uint32 l_215 = l_123 + uint32(3);
const bool l_216 = l_131 < l_121;
const bool l_217 = !l_216;
if (l_217) {
const uint32 l_218 = reinterpret_cast<uint32 const&>(l_131);
const uint32 l_219 = l_218 & uint32(2147483648);
const bool l_220 = l_219 == uint32(0);
const uint32 l_221 = l_218 & uint32(2147483647);
const bool l_222 = l_221 == uint32(0);
const bool l_223 = l_220 || l_222;
const uint32 l_224 = l_218 | uint32(2147483648);
const uint32 l_225 = l_218 ^ uint32(4294967295);
const uint32 l_226 = (l_223) ? l_224 : l_225;
const uint32 l_227 = l_226 ^ uint32(4294967295);
const uint32 l_228 = l_218 & uint32(2147483647);
const bool l_229 = l_228 > uint32(2139095040);
const uint32 l_230 = (l_229) ? uint32(4294967295) : l_227;
const uint32 l_231 = shared_memory_7[uint32(4101)];
const uint32 l_232 = shared_memory_7[uint32(4102)];
const uint32 l_233 = shared_memory_7[uint32(4103)];
const bool l_234 = l_215 < l_233;
const bool l_235 = l_230 < l_231;
const bool l_236 = l_230 == l_231;
const bool l_237 = l_236 && l_234;
const bool l_238 = l_235 || l_237;
if (l_238) {
uint32* l_239 = &shared_memory_8[uint32(0)];
const uint32 l_240 = atomicAdd(l_239, uint32(1));
shared_memory_7[l_240] = l_230;
const uint32 l_241 = l_240 + uint32(2048);
shared_memory_7[l_241] = l_215;
const uint32 l_242 = l_119 + uint32(4096);
shared_memory_7[l_242] = uint32(1);
}
}
}
__syncthreads();

const uint32 l_243 = uint32(4096) + l_119;
const uint32 l_244 = shared_memory_7[l_243];
const bool l_245 = l_244 != uint32(0);
if (l_245) {
const bool l_246 = threadIdx.x == uint32(0);
if (l_246) {
uint32* l_247 = &shared_memory_8[uint32(0)];
const uint32 l_248 = atomicAdd(l_247, uint32(0));
shared_memory_7[uint32(4098)] = l_248;
}
__syncthreads();

const bool l_249 = threadIdx.x == uint32(0);
if (l_249) {
shared_memory_7[l_243] = uint32(0);
}
const uint32 l_250 = shared_memory_7[uint32(4098)];
const bool l_251 = l_250 >= uint32(192);
if (l_251) {
const uint32 l_252 = shared_memory_7[uint32(4098)];
l_mut_94 = uint32(2);
while (true) {
const bool l_253 = l_mut_94 < l_252;
const bool l_254 = !l_253;
if (l_254) {
break;}
l_mut_94 = l_mut_94 * uint32(2);
}
const uint32 l_255 = l_252 + threadIdx.x;
l_mut_93 = l_255;
while (true) {
const bool l_256 = l_mut_93 < l_mut_94;
const bool l_257 = !l_256;
if (l_257) {
break;}
shared_memory_7[l_mut_93] = uint32(4294967295);
const uint32 l_258 = l_mut_93 + uint32(2048);
shared_memory_7[l_258] = uint32(4294967295);
l_mut_93 = l_mut_93 + uint32(256);
}
__syncthreads();

l_mut_259 = uint32(2);
while (true) {
const bool l_260 = l_mut_259 <= l_mut_94;
const bool l_261 = !l_260;
if (l_261) {
break;}
const uint32 l_262 = l_mut_259 / uint32(2);
l_mut_263 = l_262;
while (true) {
const bool l_264 = l_mut_263 > uint32(0);
const bool l_265 = !l_264;
if (l_265) {
break;}
l_mut_266 = threadIdx.x;
while (true) {
const uint32 l_267 = l_mut_94 / uint32(2);
const bool l_268 = l_mut_266 < l_267;
const bool l_269 = !l_268;
if (l_269) {
break;}
const uint32 l_270 = uint32(2) * l_mut_266;
const uint32 l_271 = l_mut_263 - uint32(1);
const uint32 l_272 = l_mut_266 & l_271;
const uint32 l_273 = l_270 - l_272;
const uint32 l_274 = l_mut_94 - uint32(1);
const uint32 l_275 = l_273 & l_274;
const uint32 l_276 = l_275 & l_mut_259;
const bool l_277 = l_276 == uint32(0);
const uint32 l_278 = l_273 + l_mut_263;
const uint32 l_279 = shared_memory_7[l_273];
const uint32 l_280 = shared_memory_7[l_278];
const uint32 l_281 = l_273 + uint32(2048);
const uint32 l_282 = shared_memory_7[l_281];
const uint32 l_283 = l_278 + uint32(2048);
const uint32 l_284 = shared_memory_7[l_283];
const bool l_285 = l_284 < l_282;
const bool l_286 = l_280 < l_279;
const bool l_287 = l_280 == l_279;
const bool l_288 = l_287 && l_285;
const bool l_289 = l_286 || l_288;
const bool l_290 = l_289 == l_277;
if (l_290) {
shared_memory_7[l_273] = l_280;
const uint32 l_291 = l_273 + uint32(2048);
shared_memory_7[l_291] = l_284;
shared_memory_7[l_278] = l_279;
const uint32 l_292 = l_278 + uint32(2048);
shared_memory_7[l_292] = l_282;
}
l_mut_266 = l_mut_266 + uint32(256);
}
__syncthreads();

l_mut_263 = l_mut_263 / uint32(2);
}
l_mut_259 = l_mut_259 * uint32(2);
}
const bool l_293 = threadIdx.x == uint32(0);
if (l_293) {
const bool l_294 = l_252 >= uint32(64);
if (l_294) {
const uint32 l_295 = shared_memory_7[uint32(63)];
const uint32 l_296 = shared_memory_7[uint32(2111)];
shared_memory_7[uint32(4101)] = l_295;
shared_memory_7[uint32(4102)] = uint32(0);
shared_memory_7[uint32(4103)] = l_296;
const uint32 l_297 = l_295 ^ uint32(4294967295);
const uint32 l_298 = l_297 & uint32(2147483648);
const bool l_299 = l_298 == uint32(0);
const uint32 l_300 = l_297 ^ uint32(4294967295);
const uint32 l_301 = l_297 ^ uint32(2147483648);
const uint32 l_302 = (l_299) ? l_300 : l_301;
const bool l_303 = l_295 == uint32(4294967295);
const uint32 l_304 = (l_303) ? uint32(2143289344) : l_302;
shared_memory_7[uint32(4104)] = l_304;
shared_memory_7[uint32(4098)] = uint32(64);
uint32* l_305 = &shared_memory_8[uint32(0)];
uint32 _tmp_4 = atomicExch(l_305, uint32(64));
}
shared_memory_7[uint32(4100)] = uint32(1);
}
__syncthreads();

}
}
}
__syncthreads();

const bool l_306 = threadIdx.x == uint32(0);
if (l_306) {
uint32* l_307 = &shared_memory_8[uint32(0)];
const uint32 l_308 = atomicAdd(l_307, uint32(0));
shared_memory_7[uint32(4098)] = l_308;
}
__syncthreads();

const uint32 l_309 = shared_memory_7[uint32(4098)];
l_mut_266 = uint32(2);
while (true) {
const bool l_310 = l_mut_266 < l_309;
const bool l_311 = !l_310;
if (l_311) {
break;}
l_mut_266 = l_mut_266 * uint32(2);
}
const uint32 l_312 = l_309 + threadIdx.x;
l_mut_263 = l_312;
while (true) {
const bool l_313 = l_mut_263 < l_mut_266;
const bool l_314 = !l_313;
if (l_314) {
break;}
shared_memory_7[l_mut_263] = uint32(4294967295);
const uint32 l_315 = l_mut_263 + uint32(2048);
shared_memory_7[l_315] = uint32(4294967295);
l_mut_263 = l_mut_263 + uint32(256);
}
__syncthreads();

l_mut_259 = uint32(2);
while (true) {
const bool l_316 = l_mut_259 <= l_mut_266;
const bool l_317 = !l_316;
if (l_317) {
break;}
const uint32 l_318 = l_mut_259 / uint32(2);
l_mut_94 = l_318;
while (true) {
const bool l_319 = l_mut_94 > uint32(0);
const bool l_320 = !l_319;
if (l_320) {
break;}
l_mut_93 = threadIdx.x;
while (true) {
const uint32 l_321 = l_mut_266 / uint32(2);
const bool l_322 = l_mut_93 < l_321;
const bool l_323 = !l_322;
if (l_323) {
break;}
const uint32 l_324 = uint32(2) * l_mut_93;
const uint32 l_325 = l_mut_94 - uint32(1);
const uint32 l_326 = l_mut_93 & l_325;
const uint32 l_327 = l_324 - l_326;
const uint32 l_328 = l_mut_266 - uint32(1);
const uint32 l_329 = l_327 & l_328;
const uint32 l_330 = l_329 & l_mut_259;
const bool l_331 = l_330 == uint32(0);
const uint32 l_332 = l_327 + l_mut_94;
const uint32 l_333 = shared_memory_7[l_327];
const uint32 l_334 = shared_memory_7[l_332];
const uint32 l_335 = l_327 + uint32(2048);
const uint32 l_336 = shared_memory_7[l_335];
const uint32 l_337 = l_332 + uint32(2048);
const uint32 l_338 = shared_memory_7[l_337];
const bool l_339 = l_338 < l_336;
const bool l_340 = l_334 < l_333;
const bool l_341 = l_334 == l_333;
const bool l_342 = l_341 && l_339;
const bool l_343 = l_340 || l_342;
const bool l_344 = l_343 == l_331;
if (l_344) {
shared_memory_7[l_327] = l_334;
const uint32 l_345 = l_327 + uint32(2048);
shared_memory_7[l_345] = l_338;
shared_memory_7[l_332] = l_333;
const uint32 l_346 = l_332 + uint32(2048);
shared_memory_7[l_346] = l_336;
}
l_mut_93 = l_mut_93 + uint32(256);
}
__syncthreads();

l_mut_94 = l_mut_94 / uint32(2);
}
l_mut_259 = l_mut_259 * uint32(2);
}
const bool l_347 = threadIdx.x == uint32(0);
if (l_347) {
const bool l_348 = l_309 >= uint32(64);
if (l_348) {
const uint32 l_349 = shared_memory_7[uint32(63)];
const uint32 l_350 = shared_memory_7[uint32(2111)];
shared_memory_7[uint32(4101)] = l_349;
shared_memory_7[uint32(4102)] = uint32(0);
shared_memory_7[uint32(4103)] = l_350;
const uint32 l_351 = l_349 ^ uint32(4294967295);
const uint32 l_352 = l_351 & uint32(2147483648);
const bool l_353 = l_352 == uint32(0);
const uint32 l_354 = l_351 ^ uint32(4294967295);
const uint32 l_355 = l_351 ^ uint32(2147483648);
const uint32 l_356 = (l_353) ? l_354 : l_355;
const bool l_357 = l_349 == uint32(4294967295);
const uint32 l_358 = (l_357) ? uint32(2143289344) : l_356;
shared_memory_7[uint32(4104)] = l_358;
shared_memory_7[uint32(4098)] = uint32(64);
uint32* l_359 = &shared_memory_8[uint32(0)];
uint32 _tmp_5 = atomicExch(l_359, uint32(64));
}
shared_memory_7[uint32(4100)] = uint32(1);
}
__syncthreads();

const uint32 l_360 = shared_memory_7[uint32(4098)];
const uint32 l_361 = l_0 * uint32(64);

for (uint32 l_mut_362 = threadIdx.x; l_mut_362 < uint32(64); l_mut_362 += uint32(256)) {
const bool l_363 = l_mut_362 < l_360;
const uint32 l_364 = l_361 + l_mut_362;
const uint32 l_365 = shared_memory_7[l_mut_362];
const uint32 l_366 = l_365 ^ uint32(4294967295);
const uint32 l_367 = l_366 & uint32(2147483648);
const bool l_368 = l_367 == uint32(0);
const uint32 l_369 = l_366 ^ uint32(4294967295);
const uint32 l_370 = l_366 ^ uint32(2147483648);
const uint32 l_371 = (l_368) ? l_369 : l_370;
const bool l_372 = l_365 == uint32(4294967295);
const uint32 l_373 = (l_372) ? uint32(2143289344) : l_371;
const uint32 l_374 = (l_363) ? l_373 : uint32(4286578688);
const uint32 l_375 = (l_363) ? uint32(0) : uint32(0);
const float l_376 = reinterpret_cast<float const&>(l_374);
buffer_1[l_364] = l_376;
const uint32 l_377 = l_mut_362 + uint32(2048);
const uint32 l_378 = shared_memory_7[l_377];
const int32 l_379 = int32(l_378);
const int32 l_380 = (l_363) ? l_379 : int32(-1);
buffer_2[l_364] = l_380;
}

}