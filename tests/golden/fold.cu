extern "C" __global__ void __launch_bounds__(256)fold (
    const float* __restrict__ buffer_0, const float* __restrict__ buffer_1, const float* __restrict__ buffer_2, float* buffer_3, int32* buffer_4, float* buffer_5, uint32* buffer_6, const __grid_constant__ info_st info
) {
uint32 blockIdxGlobal = (blockIdx.z * gridDim.y * gridDim.x) + (blockIdx.y * gridDim.x) + blockIdx.x;
extern __shared__ __align__(4) uint8 dynamic_shared_mem[];
// Shared array size: 4105, 16420 bytes
uint32 *shared_memory_10 = reinterpret_cast<uint32*>(&dynamic_shared_mem[0]);
// Shared array size: 1, 4 bytes
uint32 *shared_memory_11 = reinterpret_cast<uint32*>(&dynamic_shared_mem[16432]);
uint32 l_mut_197;
uint32 l_mut_210;
uint32 l_mut_214;
uint32 l_mut_218;
uint32 l_mut_221;
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
const bool l_13 = threadIdx.x == uint32(0);
if (l_13) {
const bool l_14 = info.scalars_uint32[5] == uint32(0);
if (l_14) {
const uint32 l_15 = buffer_6[l_12];
uint32* l_16 = &shared_memory_11[uint32(0)];
uint32 _tmp_0 = atomicExch(l_16, l_15);
shared_memory_10[uint32(4096)] = uint32(0);
shared_memory_10[uint32(4097)] = uint32(0);
shared_memory_10[uint32(4098)] = l_15;
shared_memory_10[uint32(4099)] = l_15;
shared_memory_10[uint32(4100)] = uint32(0);
shared_memory_10[uint32(4101)] = uint32(4294967295);
shared_memory_10[uint32(4102)] = uint32(4294967295);
shared_memory_10[uint32(4103)] = uint32(4294967295);
const uint32 l_17 = uint32(4294967295) & uint32(2147483648);
const bool l_18 = l_17 == uint32(0);
const uint32 l_19 = uint32(4294967295) ^ uint32(4294967295);
const uint32 l_20 = uint32(4294967295) ^ uint32(2147483648);
const uint32 l_21 = (l_18) ? l_19 : l_20;
const bool l_22 = uint32(4294967295) == uint32(4294967295);
const uint32 l_23 = (l_22) ? uint32(2143289344) : l_21;
shared_memory_10[uint32(4104)] = l_23;
const bool l_24 = l_15 == uint32(10);
if (l_24) {
const uint32 l_25 = l_12 + uint32(10);
const uint32 l_26 = buffer_6[l_25];
const uint32 l_27 = l_12 + uint32(20);
const uint32 l_28 = buffer_6[l_27];
shared_memory_10[uint32(4101)] = l_26;
shared_memory_10[uint32(4102)] = uint32(0);
shared_memory_10[uint32(4103)] = l_28;
const uint32 l_29 = l_26 & uint32(2147483648);
const bool l_30 = l_29 == uint32(0);
const uint32 l_31 = l_26 ^ uint32(4294967295);
const uint32 l_32 = l_26 ^ uint32(2147483648);
const uint32 l_33 = (l_30) ? l_31 : l_32;
const bool l_34 = l_26 == uint32(4294967295);
const uint32 l_35 = (l_34) ? uint32(2143289344) : l_33;
shared_memory_10[uint32(4104)] = l_35;
}
} else {
uint32* l_36 = &shared_memory_11[uint32(0)];
uint32 _tmp_1 = atomicExch(l_36, uint32(0));
shared_memory_10[uint32(4096)] = uint32(0);
shared_memory_10[uint32(4097)] = uint32(0);
shared_memory_10[uint32(4098)] = uint32(0);
shared_memory_10[uint32(4099)] = uint32(0);
shared_memory_10[uint32(4100)] = uint32(0);
shared_memory_10[uint32(4101)] = uint32(4294967295);
shared_memory_10[uint32(4102)] = uint32(4294967295);
shared_memory_10[uint32(4103)] = uint32(4294967295);
const uint32 l_37 = uint32(4294967295) & uint32(2147483648);
const bool l_38 = l_37 == uint32(0);
const uint32 l_39 = uint32(4294967295) ^ uint32(4294967295);
const uint32 l_40 = uint32(4294967295) ^ uint32(2147483648);
const uint32 l_41 = (l_38) ? l_39 : l_40;
const bool l_42 = uint32(4294967295) == uint32(4294967295);
const uint32 l_43 = (l_42) ? uint32(2143289344) : l_41;
shared_memory_10[uint32(4104)] = l_43;
}
}
__syncthreads();


for (uint32 l_mut_44 = l_3; l_mut_44 < l_6; l_mut_44 += uint32(1024)) {
const uint32 l_45 = l_mut_44 - l_3;
const uint32 l_46 = l_45 / uint32(1024);
const uint32 l_47 = l_46 % uint32(2);
const uint32 l_48 = shared_memory_10[uint32(4104)];
const float l_49 = reinterpret_cast<float const&>(l_48);
const uint32 l_50 = threadIdx.x * uint32(4);
const uint32 l_51 = l_mut_44 + l_50;
const bool l_52 = l_51 < l_6;
if (l_52) {
const uint32 l_53 = info.scalars_uint32[1] + l_51;
const uint32 l_54 = l_9 + l_51;
const uint32 l_55 = l_53 + uint32(1);
const uint32 l_56 = l_53 + uint32(2);
const uint32 l_57 = l_53 + uint32(3);
const uint32 l_58 = l_54 / uint32(4);
 float_4 *_tmp_2 = reinterpret_cast< float_4*>(buffer_5);
const float_4 l_59 = _tmp_2[l_58];
const float l_60 = l_59.i_0;
const float l_61 = l_59.i_1;
const float l_62 = l_59.i_2;
const float l_63 = l_59.i_3;
const uint32 l_64 = l_53 / uint32(4);
 const float_4 *_tmp_3 = reinterpret_cast< const float_4*>(buffer_2);
const float_4 l_65 = _tmp_3[l_64];
const float l_66 = l_65.i_0;
const float l_67 = l_65.i_1;
const float l_68 = l_65.i_2;
const float l_69 = l_65.i_3;
const float l_70 = l_60 * float(2.0);
const float l_71 = l_61 * float(2.0);
const float l_72 = l_62 * float(2.0);
const float l_73 = l_63 * float(2.0);
const float l_74 = l_66 - l_70;
const float l_75 = l_67 - l_71;
const float l_76 = l_68 - l_72;
const float l_77 = l_69 - l_73;
const bool l_78 = l_74 >= l_49;
const bool l_79 = !l_78;
if (l_79) {
const uint32 l_80 = reinterpret_cast<uint32 const&>(l_74);
const uint32 l_81 = l_80 & uint32(2147483648);
const bool l_82 = l_81 == uint32(0);
const uint32 l_83 = l_80 & uint32(2147483647);
const bool l_84 = l_83 == uint32(0);
const bool l_85 = l_82 || l_84;
const uint32 l_86 = l_80 | uint32(2147483648);
const uint32 l_87 = l_80 ^ uint32(4294967295);
const uint32 l_88 = (l_85) ? l_86 : l_87;
const uint32 l_89 = l_80 & uint32(2147483647);
const bool l_90 = l_89 > uint32(2139095040);
const uint32 l_91 = (l_90) ? uint32(4294967295) : l_88;
const uint32 l_92 = shared_memory_10[uint32(4101)];
const uint32 l_93 = shared_memory_10[uint32(4102)];
const uint32 l_94 = shared_memory_10[uint32(4103)];
const bool l_95 = l_53 < l_94;
const bool l_96 = l_91 < l_92;
const bool l_97 = l_91 == l_92;
const bool l_98 = l_97 && l_95;
const bool l_99 = l_96 || l_98;
if (l_99) {
uint32* l_100 = &shared_memory_11[uint32(0)];
const uint32 l_101 = atomicAdd(l_100, uint32(1));
shared_memory_10[l_101] = l_91;
const uint32 l_102 = l_101 + uint32(2048);
shared_memory_10[l_102] = l_53;
const uint32 l_103 = l_47 + uint32(4096);
shared_memory_10[l_103] = uint32(1);
}
}
const uint32 l_104 = l_53 + uint32(1);
const bool l_105 = l_75 >= l_49;
const bool l_106 = !l_105;
if (l_106) {
const uint32 l_107 = reinterpret_cast<uint32 const&>(l_75);
const uint32 l_108 = l_107 & uint32(2147483648);
const bool l_109 = l_108 == uint32(0);
const uint32 l_110 = l_107 & uint32(2147483647);
const bool l_111 = l_110 == uint32(0);
const bool l_112 = l_109 || l_111;
const uint32 l_113 = l_107 | uint32(2147483648);
const uint32 l_114 = l_107 ^ uint32(4294967295);
const uint32 l_115 = (l_112) ? l_113 : l_114;
const uint32 l_116 = l_107 & uint32(2147483647);
const bool l_117 = l_116 > uint32(2139095040);
const uint32 l_118 = (l_117) ? uint32(4294967295) : l_115;
const uint32 l_119 = shared_memory_10[uint32(4101)];
const uint32 l_120 = shared_memory_10[uint32(4102)];
const uint32 l_121 = shared_memory_10[uint32(4103)];
const bool l_122 = l_104 < l_121;
const bool l_123 = l_118 < l_119;
const bool l_124 = l_118 == l_119;
const bool l_125 = l_124 && l_122;
const bool l_126 = l_123 || l_125;
if (l_126) {
uint32* l_127 = &shared_memory_11[uint32(0)];
const uint32 l_128 = atomicAdd(l_127, uint32(1));
shared_memory_10[l_128] = l_118;
const uint32 l_129 = l_128 + uint32(2048);
shared_memory_10[l_129] = l_104;
const uint32 l_130 = l_47 + uint32(4096);
shared_memory_10[l_130] = uint32(1);
}
}
const uint32 l_131 = l_53 + uint32(2);
const bool l_132 = l_76 >= l_49;
const bool l_133 = !l_132;
if (l_133) {
const uint32 l_134 = reinterpret_cast<uint32 const&>(l_76);
const uint32 l_135 = l_134 & uint32(2147483648);
const bool l_136 = l_135 == uint32(0);
const uint32 l_137 = l_134 & uint32(2147483647);
const bool l_138 = l_137 == uint32(0);
const bool l_139 = l_136 || l_138;
const uint32 l_140 = l_134 | uint32(2147483648);
const uint32 l_141 = l_134 ^ uint32(4294967295);
const uint32 l_142 = (l_139) ? l_140 : l_141;
const uint32 l_143 = l_134 & uint32(2147483647);
const bool l_144 = l_143 > uint32(2139095040);
const uint32 l_145 = (l_144) ? uint32(4294967295) : l_142;
const uint32 l_146 = shared_memory_10[uint32(4101)];
const uint32 l_147 = shared_memory_10[uint32(4102)];
const uint32 l_148 = shared_memory_10[uint32(4103)];
const bool l_149 = l_131 < l_148;
const bool l_150 = l_145 < l_146;
const bool l_151 = l_145 == l_146;
const bool l_152 = l_151 && l_149;
const bool l_153 = l_150 || l_152;
if (l_153) {
uint32* l_154 = &shared_memory_11[uint32(0)];
const uint32 l_155 = atomicAdd(l_154, uint32(1));
shared_memory_10[l_155] = l_145;
const uint32 l_156 = l_155 + uint32(2048);
shared_memory_10[l_156] = l_131;
const uint32 l_157 = l_47 + uint32(4096);
shared_memory_10[l_157] = uint32(1);
}
}
const uint32 l_158 = l_53 + uint32(3);
const bool l_159 = l_77 >= l_49;
const bool l_160 = !l_159;
if (l_160) {
const uint32 l_161 = reinterpret_cast<uint32 const&>(l_77);
const uint32 l_162 = l_161 & uint32(2147483648);
const bool l_163 = l_162 == uint32(0);
const uint32 l_164 = l_161 & uint32(2147483647);
const bool l_165 = l_164 == uint32(0);
const bool l_166 = l_163 || l_165;
const uint32 l_167 = l_161 | uint32(2147483648);
const uint32 l_168 = l_161 ^ uint32(4294967295);
const uint32 l_169 = (l_166) ? l_167 : l_168;
const uint32 l_170 = l_161 & uint32(2147483647);
const bool l_171 = l_170 > uint32(2139095040);
const uint32 l_172 = (l_171) ? uint32(4294967295) : l_169;
const uint32 l_173 = shared_memory_10[uint32(4101)];
const uint32 l_174 = shared_memory_10[uint32(4102)];
const uint32 l_175 = shared_memory_10[uint32(4103)];
const bool l_176 = l_158 < l_175;
const bool l_177 = l_172 < l_173;
const bool l_178 = l_172 == l_173;
const bool l_179 = l_178 && l_176;
const bool l_180 = l_177 || l_179;
if (l_180) {
uint32* l_181 = &shared_memory_11[uint32(0)];
const uint32 l_182 = atomicAdd(l_181, uint32(1));
shared_memory_10[l_182] = l_172;
const uint32 l_183 = l_182 + uint32(2048);
shared_memory_10[l_183] = l_158;
const uint32 l_184 = l_47 + uint32(4096);
shared_memory_10[l_184] = uint32(1);
}
}
}
__syncthreads();

const uint32 l_185 = uint32(4096) + l_47;
const uint32 l_186 = shared_memory_10[l_185];
const bool l_187 = l_186 != uint32(0);
if (l_187) {
const bool l_188 = threadIdx.x == uint32(0);
if (l_188) {
uint32* l_189 = &shared_memory_11[uint32(0)];
const uint32 l_190 = atomicAdd(l_189, uint32(0));
shared_memory_10[uint32(4098)] = l_190;
}
__syncthreads();

const bool l_191 = threadIdx.x == uint32(0);
if (l_191) {
shared_memory_10[l_185] = uint32(0);
}
const uint32 l_192 = shared_memory_10[uint32(4098)];
const bool l_193 = l_192 >= uint32(138);
if (l_193) {
const uint32 l_194 = shared_memory_10[uint32(4100)];
const bool l_195 = l_194 == uint32(0);
if (l_195) {
const uint32 l_196 = shared_memory_10[uint32(4099)];
l_mut_197 = threadIdx.x;
while (true) {
const bool l_198 = l_mut_197 < l_196;
const bool l_199 = !l_198;
if (l_199) {
break;}
const uint32 l_200 = l_12 + uint32(1);
const uint32 l_201 = l_200 + l_mut_197;
const uint32 l_202 = buffer_6[l_201];
shared_memory_10[l_mut_197] = l_202;
const uint32 l_203 = l_mut_197 + uint32(2048);
const uint32 l_204 = l_201 + uint32(10);
const uint32 l_205 = buffer_6[l_204];
shared_memory_10[l_203] = l_205;
l_mut_197 = l_mut_197 + uint32(256);
}
}
const uint32 l_206 = shared_memory_10[uint32(4098)];
l_mut_197 = uint32(2);
while (true) {
const bool l_207 = l_mut_197 < l_206;
const bool l_208 = !l_207;
if (l_208) {
break;}
l_mut_197 = l_mut_197 * uint32(2);
}
const uint32 l_209 = l_206 + threadIdx.x;
l_mut_210 = l_209;
while (true) {
const bool l_211 = l_mut_210 < l_mut_197;
const bool l_212 = !l_211;
if (l_212) {
break;}
shared_memory_10[l_mut_210] = uint32(4294967295);
const uint32 l_213 = l_mut_210 + uint32(2048);
shared_memory_10[l_213] = uint32(4294967295);
l_mut_210 = l_mut_210 + uint32(256);
}
__syncthreads();

l_mut_214 = uint32(2);
while (true) {
const bool l_215 = l_mut_214 <= l_mut_197;
const bool l_216 = !l_215;
if (l_216) {
break;}
const uint32 l_217 = l_mut_214 / uint32(2);
l_mut_218 = l_217;
while (true) {
const bool l_219 = l_mut_218 > uint32(0);
const bool l_220 = !l_219;
if (l_220) {
break;}
l_mut_221 = threadIdx.x;
while (true) {
const uint32 l_222 = l_mut_197 / uint32(2);
const bool l_223 = l_mut_221 < l_222;
const bool l_224 = !l_223;
if (l_224) {
break;}
const uint32 l_225 = uint32(2) * l_mut_221;
const uint32 l_226 = l_mut_218 - uint32(1);
const uint32 l_227 = l_mut_221 & l_226;
const uint32 l_228 = l_225 - l_227;
const uint32 l_229 = l_mut_197 - uint32(1);
const uint32 l_230 = l_228 & l_229;
const uint32 l_231 = l_230 & l_mut_214;
const bool l_232 = l_231 == uint32(0);
const uint32 l_233 = l_228 + l_mut_218;
const uint32 l_234 = shared_memory_10[l_228];
const uint32 l_235 = shared_memory_10[l_233];
const uint32 l_236 = l_228 + uint32(2048);
const uint32 l_237 = shared_memory_10[l_236];
const uint32 l_238 = l_233 + uint32(2048);
const uint32 l_239 = shared_memory_10[l_238];
const bool l_240 = l_239 < l_237;
const bool l_241 = l_235 < l_234;
const bool l_242 = l_235 == l_234;
const bool l_243 = l_242 && l_240;
const bool l_244 = l_241 || l_243;
const bool l_245 = l_244 == l_232;
if (l_245) {
shared_memory_10[l_228] = l_235;
const uint32 l_246 = l_228 + uint32(2048);
shared_memory_10[l_246] = l_239;
shared_memory_10[l_233] = l_234;
const uint32 l_247 = l_233 + uint32(2048);
shared_memory_10[l_247] = l_237;
}
l_mut_221 = l_mut_221 + uint32(256);
}
__syncthreads();

l_mut_218 = l_mut_218 / uint32(2);
}
l_mut_214 = l_mut_214 * uint32(2);
}
const bool l_248 = threadIdx.x == uint32(0);
if (l_248) {
const bool l_249 = l_206 >= uint32(10);
if (l_249) {
const uint32 l_250 = shared_memory_10[uint32(9)];
const uint32 l_251 = shared_memory_10[uint32(2057)];
shared_memory_10[uint32(4101)] = l_250;
shared_memory_10[uint32(4102)] = uint32(0);
shared_memory_10[uint32(4103)] = l_251;
const uint32 l_252 = l_250 & uint32(2147483648);
const bool l_253 = l_252 == uint32(0);
const uint32 l_254 = l_250 ^ uint32(4294967295);
const uint32 l_255 = l_250 ^ uint32(2147483648);
const uint32 l_256 = (l_253) ? l_254 : l_255;
const bool l_257 = l_250 == uint32(4294967295);
const uint32 l_258 = (l_257) ? uint32(2143289344) : l_256;
shared_memory_10[uint32(4104)] = l_258;
shared_memory_10[uint32(4098)] = uint32(10);
uint32* l_259 = &shared_memory_11[uint32(0)];
uint32 _tmp_4 = atomicExch(l_259, uint32(10));
}
shared_memory_10[uint32(4100)] = uint32(1);
}
__syncthreads();

}
}
}
const bool l_260 = threadIdx.x == uint32(0);
if (l_260) {
uint32* l_261 = &shared_memory_11[uint32(0)];
const uint32 l_262 = atomicAdd(l_261, uint32(0));
shared_memory_10[uint32(4098)] = l_262;
}
__syncthreads();

const uint32 l_263 = shared_memory_10[uint32(4098)];
const uint32 l_264 = shared_memory_10[uint32(4099)];
const bool l_265 = l_263 != l_264;
const uint32 l_266 = shared_memory_10[uint32(4100)];
const bool l_267 = l_266 != uint32(0);
const bool l_268 = l_265 || l_267;
if (l_268) {
const uint32 l_269 = shared_memory_10[uint32(4100)];
const bool l_270 = l_269 == uint32(0);
if (l_270) {
const uint32 l_271 = shared_memory_10[uint32(4099)];
l_mut_221 = threadIdx.x;
while (true) {
const bool l_272 = l_mut_221 < l_271;
const bool l_273 = !l_272;
if (l_273) {
break;}
const uint32 l_274 = l_12 + uint32(1);
const uint32 l_275 = l_274 + l_mut_221;
const uint32 l_276 = buffer_6[l_275];
shared_memory_10[l_mut_221] = l_276;
const uint32 l_277 = l_mut_221 + uint32(2048);
const uint32 l_278 = l_275 + uint32(10);
const uint32 l_279 = buffer_6[l_278];
shared_memory_10[l_277] = l_279;
l_mut_221 = l_mut_221 + uint32(256);
}
}
const uint32 l_280 = shared_memory_10[uint32(4098)];
l_mut_221 = uint32(2);
while (true) {
const bool l_281 = l_mut_221 < l_280;
const bool l_282 = !l_281;
if (l_282) {
break;}
l_mut_221 = l_mut_221 * uint32(2);
}
const uint32 l_283 = l_280 + threadIdx.x;
l_mut_218 = l_283;
while (true) {
const bool l_284 = l_mut_218 < l_mut_221;
const bool l_285 = !l_284;
if (l_285) {
break;}
shared_memory_10[l_mut_218] = uint32(4294967295);
const uint32 l_286 = l_mut_218 + uint32(2048);
shared_memory_10[l_286] = uint32(4294967295);
l_mut_218 = l_mut_218 + uint32(256);
}
__syncthreads();

l_mut_214 = uint32(2);
while (true) {
const bool l_287 = l_mut_214 <= l_mut_221;
const bool l_288 = !l_287;
if (l_288) {
break;}
const uint32 l_289 = l_mut_214 / uint32(2);
l_mut_210 = l_289;
while (true) {
const bool l_290 = l_mut_210 > uint32(0);
const bool l_291 = !l_290;
if (l_291) {
break;}
l_mut_197 = threadIdx.x;
while (true) {
const uint32 l_292 = l_mut_221 / uint32(2);
const bool l_293 = l_mut_197 < l_292;
const bool l_294 = !l_293;
if (l_294) {
break;}
const uint32 l_295 = uint32(2) * l_mut_197;
const uint32 l_296 = l_mut_210 - uint32(1);
const uint32 l_297 = l_mut_197 & l_296;
const uint32 l_298 = l_295 - l_297;
const uint32 l_299 = l_mut_221 - uint32(1);
const uint32 l_300 = l_298 & l_299;
const uint32 l_301 = l_300 & l_mut_214;
const bool l_302 = l_301 == uint32(0);
const uint32 l_303 = l_298 + l_mut_210;
const uint32 l_304 = shared_memory_10[l_298];
const uint32 l_305 = shared_memory_10[l_303];
const uint32 l_306 = l_298 + uint32(2048);
const uint32 l_307 = shared_memory_10[l_306];
const uint32 l_308 = l_303 + uint32(2048);
const uint32 l_309 = shared_memory_10[l_308];
const bool l_310 = l_309 < l_307;
const bool l_311 = l_305 < l_304;
const bool l_312 = l_305 == l_304;
const bool l_313 = l_312 && l_310;
const bool l_314 = l_311 || l_313;
const bool l_315 = l_314 == l_302;
if (l_315) {
shared_memory_10[l_298] = l_305;
const uint32 l_316 = l_298 + uint32(2048);
shared_memory_10[l_316] = l_309;
shared_memory_10[l_303] = l_304;
const uint32 l_317 = l_303 + uint32(2048);
shared_memory_10[l_317] = l_307;
}
l_mut_197 = l_mut_197 + uint32(256);
}
__syncthreads();

l_mut_210 = l_mut_210 / uint32(2);
}
l_mut_214 = l_mut_214 * uint32(2);
}
const bool l_318 = threadIdx.x == uint32(0);
if (l_318) {
const bool l_319 = l_280 >= uint32(10);
if (l_319) {
const uint32 l_320 = shared_memory_10[uint32(9)];
const uint32 l_321 = shared_memory_10[uint32(2057)];
shared_memory_10[uint32(4101)] = l_320;
shared_memory_10[uint32(4102)] = uint32(0);
shared_memory_10[uint32(4103)] = l_321;
const uint32 l_322 = l_320 & uint32(2147483648);
const bool l_323 = l_322 == uint32(0);
const uint32 l_324 = l_320 ^ uint32(4294967295);
const uint32 l_325 = l_320 ^ uint32(2147483648);
const uint32 l_326 = (l_323) ? l_324 : l_325;
const bool l_327 = l_320 == uint32(4294967295);
const uint32 l_328 = (l_327) ? uint32(2143289344) : l_326;
shared_memory_10[uint32(4104)] = l_328;
shared_memory_10[uint32(4098)] = uint32(10);
uint32* l_329 = &shared_memory_11[uint32(0)];
uint32 _tmp_5 = atomicExch(l_329, uint32(10));
}
shared_memory_10[uint32(4100)] = uint32(1);
}
__syncthreads();

const uint32 l_330 = shared_memory_10[uint32(4098)];
l_mut_221 = threadIdx.x;
const bool l_331 = l_mut_221 == uint32(0);
if (l_331) {
buffer_6[l_12] = l_330;
}
while (true) {
const bool l_332 = l_mut_221 < l_330;
const bool l_333 = !l_332;
if (l_333) {
break;}
const uint32 l_334 = l_12 + uint32(1);
const uint32 l_335 = l_334 + l_mut_221;
const uint32 l_336 = shared_memory_10[l_mut_221];
buffer_6[l_335] = l_336;
const uint32 l_337 = l_335 + uint32(10);
const uint32 l_338 = l_mut_221 + uint32(2048);
const uint32 l_339 = shared_memory_10[l_338];
buffer_6[l_337] = l_339;
l_mut_221 = l_mut_221 + uint32(256);
}
}

}