extern "C" __global__ void __launch_bounds__(256)select_rows (
    const float* __restrict__ buffer_0, float* buffer_1, int32* buffer_2, const __grid_constant__ info_st info
) {
uint32 blockIdxGlobal = (blockIdx.z * gridDim.y * gridDim.x) + (blockIdx.y * gridDim.x) + blockIdx.x;
extern __shared__ __align__(4) uint8 dynamic_shared_mem[];
// Shared array size: 4105, 16420 bytes
uint32 *shared_memory_7 = reinterpret_cast<uint32*>(&dynamic_shared_mem[0]);
// Shared array size: 1, 4 bytes
uint32 *shared_memory_8 = reinterpret_cast<uint32*>(&dynamic_shared_mem[16432]);
uint32 l_mut_156;
uint32 l_mut_160;
uint32 l_mut_164;
uint32 l_mut_168;
uint32 l_mut_171;
const uint32 l_0 = blockIdxGlobal / info.scalars_uint32[2];
const uint32 l_1 = blockIdxGlobal % info.scalars_uint32[2];
const uint32 l_2 = l_1 * info.scalars_uint32[1];
const uint32 l_3 = l_2 + info.scalars_uint32[1];
const bool l_4 = l_3 < info.scalars_uint32[0];
const uint32 l_5 = (l_4) ? l_3 : info.scalars_uint32[0];
const uint32 l_6 = l_0 * info.scalars_uint32[0];
const bool l_9 = threadIdx.x == uint32(0);
if (l_9) {
uint32* l_10 = &shared_memory_8[uint32(0)];
uint32 _tmp_0 = atomicExch(l_10, uint32(0));
shared_memory_7[uint32(4096)] = uint32(0);
shared_memory_7[uint32(4097)] = uint32(0);
shared_memory_7[uint32(4098)] = uint32(0);
shared_memory_7[uint32(4099)] = uint32(0);
shared_memory_7[uint32(4100)] = uint32(0);
shared_memory_7[uint32(4101)] = uint32(4294967295);
shared_memory_7[uint32(4102)] = uint32(4294967295);
shared_memory_7[uint32(4103)] = uint32(4294967295);
const uint32 l_11 = uint32(4294967295) ^ uint32(4294967295);
const uint32 l_12 = l_11 & uint32(2147483648);
const bool l_13 = l_12 == uint32(0);
const uint32 l_14 = l_11 ^ uint32(4294967295);
const uint32 l_15 = l_11 ^ uint32(2147483648);
const uint32 l_16 = (l_13) ? l_14 : l_15;
const bool l_17 = uint32(4294967295) == uint32(4294967295);
const uint32 l_18 = (l_17) ? uint32(2143289344) : l_16;
shared_memory_7[uint32(4104)] = l_18;
}
__syncthreads();


for (uint32 l_mut_19 = l_2; l_mut_19 < l_5; l_mut_19 += uint32(1024)) {
const uint32 l_20 = l_mut_19 - l_2;
const uint32 l_21 = l_20 / uint32(1024);
const uint32 l_22 = l_21 % uint32(2);
const uint32 l_23 = shared_memory_7[uint32(4104)];
const float l_24 = reinterpret_cast<float const&>(l_23);
const uint32 l_25 = threadIdx.x * uint32(4);
const uint32 l_26 = l_mut_19 + l_25;
const bool l_27 = l_26 < l_5;
if (l_27) {
const uint32 l_28 = l_6 + l_26;
const uint32 l_29 = l_28 / uint32(4);
 const float_4 *_tmp_1 = reinterpret_cast< const float_4*>(buffer_0);
const float_4 l_30 = _tmp_1[l_29];
const float l_31 = l_30.i_0;
const float l_32 = l_30.i_1;
const float l_33 = l_30.i_2;
const float l_34 = l_30.i_3;
const bool l_35 = l_31 <= l_24;
const bool l_36 = !l_35;
if (l_36) {
const uint32 l_37 = reinterpret_cast<uint32 const&>(l_31);
const uint32 l_38 = l_37 & uint32(2147483648);
const bool l_39 = l_38 == uint32(0);
const uint32 l_40 = l_37 & uint32(2147483647);
const bool l_41 = l_40 == uint32(0);
const bool l_42 = l_39 || l_41;
const uint32 l_43 = l_37 | uint32(2147483648);
const uint32 l_44 = l_37 ^ uint32(4294967295);
const uint32 l_45 = (l_42) ? l_43 : l_44;
const uint32 l_46 = l_45 ^ uint32(4294967295);
const uint32 l_47 = l_37 & uint32(2147483647);
const bool l_48 = l_47 > uint32(2139095040);
const uint32 l_49 = (l_48) ? uint32(4294967295) : l_46;
const uint32 l_50 = shared_memory_7[uint32(4101)];
const uint32 l_51 = shared_memory_7[uint32(4102)];
const uint32 l_52 = shared_memory_7[uint32(4103)];
const bool l_53 = l_26 < l_52;
const bool l_54 = l_49 < l_50;
const bool l_55 = l_49 == l_50;
const bool l_56 = l_55 && l_53;
const bool l_57 = l_54 || l_56;
if (l_57) {
uint32* l_58 = &shared_memory_8[uint32(0)];
const uint32 l_59 = atomicAdd(l_58, uint32(1));
shared_memory_7[l_59] = l_49;
const uint32 l_60 = l_59 + uint32(2048);
shared_memory_7[l_60] = l_26;
const uint32 l_61 = l_22 + uint32(4096);
shared_memory_7[l_61] = uint32(1);
}
}
const uint32 l_62 = l_26 + uint32(1);
const bool l_63 = l_32 <= l_24;
const bool l_64 = !l_63;
if (l_64) {
const uint32 l_65 = reinterpret_cast<uint32 const&>(l_32);
const uint32 l_66 = l_65 & uint32(2147483648);
const bool l_67 = l_66 == uint32(0);
const uint32 l_68 = l_65 & uint32(2147483647);
const bool l_69 = l_68 == uint32(0);
const bool l_70 = l_67 || l_69;
const uint32 l_71 = l_65 | uint32(2147483648);
const uint32 l_72 = l_65 ^ uint32(4294967295);
const uint32 l_73 = (l_70) ? l_71 : l_72;
const uint32 l_74 = l_73 ^ uint32(4294967295);
const uint32 l_75 = l_65 & uint32(2147483647);
const bool l_76 = l_75 > uint32(2139095040);
const uint32 l_77 = (l_76) ? uint32(4294967295) : l_74;
const uint32 l_78 = shared_memory_7[uint32(4101)];
const uint32 l_79 = shared_memory_7[uint32(4102)];
const uint32 l_80 = shared_memory_7[uint32(4103)];
const bool l_81 = l_62 < l_80;
const bool l_82 = l_77 < l_78;
const bool l_83 = l_77 == l_78;
const bool l_84 = l_83 && l_81;
const bool l_85 = l_82 || l_84;
if (l_85) {
uint32* l_86 = &shared_memory_8[uint32(0)];
const uint32 l_87 = atomicAdd(l_86, uint32(1));
shared_memory_7[l_87] = l_77;
const uint32 l_88 = l_87 + uint32(2048);
shared_memory_7[l_88] = l_62;
const uint32 l_89 = l_22 + uint32(4096);
shared_memory_7[l_89] = uint32(1);
}
}
const uint32 l_90 = l_26 + uint32(2);
const bool l_91 = l_33 <= l_24;
const bool l_92 = !l_91;
if (l_92) {
const uint32 l_93 = reinterpret_cast<uint32 const&>(l_33);
const uint32 l_94 = l_93 & uint32(2147483648);
const bool l_95 = l_94 == uint32(0);
const uint32 l_96 = l_93 & uint32(2147483647);
const bool l_97 = l_96 == uint32(0);
const bool l_98 = l_95 || l_97;
const uint32 l_99 = l_93 | uint32(2147483648);
const uint32 l_100 = l_93 ^ uint32(4294967295);
const uint32 l_101 = (l_98) ? l_99 : l_100;
const uint32 l_102 = l_101 ^ uint32(4294967295);
const uint32 l_103 = l_93 & uint32(2147483647);
const bool l_104 = l_103 > uint32(2139095040);
const uint32 l_105 = (l_104) ? uint32(4294967295) : l_102;
const uint32 l_106 = shared_memory_7[uint32(4101)];
const uint32 l_107 = shared_memory_7[uint32(4102)];
const uint32 l_108 = shared_memory_7[uint32(4103)];
const bool l_109 = l_90 < l_108;
const bool l_110 = l_105 < l_106;
const bool l_111 = l_105 == l_106;
const bool l_112 = l_111 && l_109;
const bool l_113 = l_110 || l_112;
if (l_113) {
uint32* l_114 = &shared_memory_8[uint32(0)];
const uint32 l_115 = atomicAdd(l_114, uint32(1));
shared_memory_7[l_115] = l_105;
const uint32 l_116 = l_115 + uint32(2048);
shared_memory_7[l_116] = l_90;
const uint32 l_117 = l_22 + uint32(4096);
shared_memory_7[l_117] = uint32(1);
}
}
const uint32 l_118 = l_26 + uint32(3);
const bool l_119 = l_34 <= l_24;
const bool l_120 = !l_119;
if (l_120) {
const uint32 l_121 = reinterpret_cast<uint32 const&>(l_34);
const uint32 l_122 = l_121 & uint32(2147483648);
const bool l_123 = l_122 == uint32(0);
const uint32 l_124 = l_121 & uint32(2147483647);
const bool l_125 = l_124 == uint32(0);
const bool l_126 = l_123 || l_125;
const uint32 l_127 = l_121 | uint32(2147483648);
const uint32 l_128 = l_121 ^ uint32(4294967295);
const uint32 l_129 = (l_126) ? l_127 : l_128;
const uint32 l_130 = l_129 ^ uint32(4294967295);
const uint32 l_131 = l_121 & uint32(2147483647);
const bool l_132 = l_131 > uint32(2139095040);
const uint32 l_133 = (l_132) ? uint32(4294967295) : l_130;
const uint32 l_134 = shared_memory_7[uint32(4101)];
const uint32 l_135 = shared_memory_7[uint32(4102)];
const uint32 l_136 = shared_memory_7[uint32(4103)];
const bool l_137 = l_118 < l_136;
const bool l_138 = l_133 < l_134;
const bool l_139 = l_133 == l_134;
const bool l_140 = l_139 && l_137;
const bool l_141 = l_138 || l_140;
if (l_141) {
uint32* l_142 = &shared_memory_8[uint32(0)];
const uint32 l_143 = atomicAdd(l_142, uint32(1));
shared_memory_7[l_143] = l_133;
const uint32 l_144 = l_143 + uint32(2048);
shared_memory_7[l_144] = l_118;
const uint32 l_145 = l_22 + uint32(4096);
shared_memory_7[l_145] = uint32(1);
}
}
}
__syncthreads();

const uint32 l_146 = uint32(4096) + l_22;
const uint32 l_147 = shared_memory_7[l_146];
const bool l_148 = l_147 != uint32(0);
if (l_148) {
const bool l_149 = threadIdx.x == uint32(0);
if (l_149) {
uint32* l_150 = &shared_memory_8[uint32(0)];
const uint32 l_151 = atomicAdd(l_150, uint32(0));
shared_memory_7[uint32(4098)] = l_151;
}
__syncthreads();

const bool l_152 = threadIdx.x == uint32(0);
if (l_152) {
shared_memory_7[l_146] = uint32(0);
}
const uint32 l_153 = shared_memory_7[uint32(4098)];
const bool l_154 = l_153 >= uint32(192);
if (l_154) {
const uint32 l_155 = shared_memory_7[uint32(4098)];
l_mut_156 = uint32(2);
while (true) {
const bool l_157 = l_mut_156 < l_155;
const bool l_158 = !l_157;
if (l_158) {
break;}
l_mut_156 = l_mut_156 * uint32(2);
}
const uint32 l_159 = l_155 + threadIdx.x;
l_mut_160 = l_159;
while (true) {
const bool l_161 = l_mut_160 < l_mut_156;
const bool l_162 = !l_161;
if (l_162) {
break;}
shared_memory_7[l_mut_160] = uint32(4294967295);
const uint32 l_163 = l_mut_160 + uint32(2048);
shared_memory_7[l_163] = uint32(4294967295);
l_mut_160 = l_mut_160 + uint32(256);
}
__syncthreads();

l_mut_164 = uint32(2);
while (true) {
const bool l_165 = l_mut_164 <= l_mut_156;
const bool l_166 = !l_165;
if (l_166) {
break;}
const uint32 l_167 = l_mut_164 / uint32(2);
l_mut_168 = l_167;
while (true) {
const bool l_169 = l_mut_168 > uint32(0);
const bool l_170 = !l_169;
if (l_170) {
break;}
l_mut_171 = threadIdx.x;
while (true) {
const uint32 l_172 = l_mut_156 / uint32(2);
const bool l_173 = l_mut_171 < l_172;
const bool l_174 = !l_173;
if (l_174) {
break;}
const uint32 l_175 = uint32(2) * l_mut_171;
const uint32 l_176 = l_mut_168 - uint32(1);
const uint32 l_177 = l_mut_171 & l_176;
const uint32 l_178 = l_175 - l_177;
const uint32 l_179 = l_mut_156 - uint32(1);
const uint32 l_180 = l_178 & l_179;
const uint32 l_181 = l_180 & l_mut_164;
const bool l_182 = l_181 == uint32(0);
const uint32 l_183 = l_178 + l_mut_168;
const uint32 l_184 = shared_memory_7[l_178];
const uint32 l_185 = shared_memory_7[l_183];
const uint32 l_186 = l_178 + uint32(2048);
const uint32 l_187 = shared_memory_7[l_186];
const uint32 l_188 = l_183 + uint32(2048);
const uint32 l_189 = shared_memory_7[l_188];
const bool l_190 = l_189 < l_187;
const bool l_191 = l_185 < l_184;
const bool l_192 = l_185 == l_184;
const bool l_193 = l_192 && l_190;
const bool l_194 = l_191 || l_193;
const bool l_195 = l_194 == l_182;
if (l_195) {
shared_memory_7[l_178] = l_185;
const uint32 l_196 = l_178 + uint32(2048);
shared_memory_7[l_196] = l_189;
shared_memory_7[l_183] = l_184;
const uint32 l_197 = l_183 + uint32(2048);
shared_memory_7[l_197] = l_187;
}
l_mut_171 = l_mut_171 + uint32(256);
}
__syncthreads();

l_mut_168 = l_mut_168 / uint32(2);
}
l_mut_164 = l_mut_164 * uint32(2);
}
const bool l_198 = threadIdx.x == uint32(0);
if (l_198) {
const bool l_199 = l_155 >= uint32(64);
if (l_199) {
const uint32 l_200 = shared_memory_7[uint32(63)];
const uint32 l_201 = shared_memory_7[uint32(2111)];
shared_memory_7[uint32(4101)] = l_200;
shared_memory_7[uint32(4102)] = uint32(0);
shared_memory_7[uint32(4103)] = l_201;
const uint32 l_202 = l_200 ^ uint32(4294967295);
const uint32 l_203 = l_202 & uint32(2147483648);
const bool l_204 = l_203 == uint32(0);
const uint32 l_205 = l_202 ^ uint32(4294967295);
const uint32 l_206 = l_202 ^ uint32(2147483648);
const uint32 l_207 = (l_204) ? l_205 : l_206;
const bool l_208 = l_200 == uint32(4294967295);
const uint32 l_209 = (l_208) ? uint32(2143289344) : l_207;
shared_memory_7[uint32(4104)] = l_209;
shared_memory_7[uint32(4098)] = uint32(64);
uint32* l_210 = &shared_memory_8[uint32(0)];
uint32 _tmp_2 = atomicExch(l_210, uint32(64));
}
shared_memory_7[uint32(4100)] = uint32(1);
}
__syncthreads();

}
}
}
__syncthreads();

const bool l_211 = threadIdx.x == uint32(0);
if (l_211) {
uint32* l_212 = &shared_memory_8[uint32(0)];
const uint32 l_213 = atomicAdd(l_212, uint32(0));
shared_memory_7[uint32(4098)] = l_213;
}
__syncthreads();

const uint32 l_214 = shared_memory_7[uint32(4098)];
l_mut_171 = uint32(2);
while (true) {
const bool l_215 = l_mut_171 < l_214;
const bool l_216 = !l_215;
if (l_216) {
break;}
l_mut_171 = l_mut_171 * uint32(2);
}
const uint32 l_217 = l_214 + threadIdx.x;
l_mut_168 = l_217;
while (true) {
const bool l_218 = l_mut_168 < l_mut_171;
const bool l_219 = !l_218;
if (l_219) {
break;}
shared_memory_7[l_mut_168] = uint32(4294967295);
const uint32 l_220 = l_mut_168 + uint32(2048);
shared_memory_7[l_220] = uint32(4294967295);
l_mut_168 = l_mut_168 + uint32(256);
}
__syncthreads();

l_mut_164 = uint32(2);
while (true) {
const bool l_221 = l_mut_164 <= l_mut_171;
const bool l_222 = !l_221;
if (l_222) {
break;}
const uint32 l_223 = l_mut_164 / uint32(2);
l_mut_160 = l_223;
while (true) {
const bool l_224 = l_mut_160 > uint32(0);
const bool l_225 = !l_224;
if (l_225) {
break;}
l_mut_156 = threadIdx.x;
while (true) {
const uint32 l_226 = l_mut_171 / uint32(2);
const bool l_227 = l_mut_156 < l_226;
const bool l_228 = !l_227;
if (l_228) {
break;}
const uint32 l_229 = uint32(2) * l_mut_156;
const uint32 l_230 = l_mut_160 - uint32(1);
const uint32 l_231 = l_mut_156 & l_230;
const uint32 l_232 = l_229 - l_231;
const uint32 l_233 = l_mut_171 - uint32(1);
const uint32 l_234 = l_232 & l_233;
const uint32 l_235 = l_234 & l_mut_164;
const bool l_236 = l_235 == uint32(0);
const uint32 l_237 = l_232 + l_mut_160;
const uint32 l_238 = shared_memory_7[l_232];
const uint32 l_239 = shared_memory_7[l_237];
const uint32 l_240 = l_232 + uint32(2048);
const uint32 l_241 = shared_memory_7[l_240];
const uint32 l_242 = l_237 + uint32(2048);
const uint32 l_243 = shared_memory_7[l_242];
const bool l_244 = l_243 < l_241;
const bool l_245 = l_239 < l_238;
const bool l_246 = l_239 == l_238;
const bool l_247 = l_246 && l_244;
const bool l_248 = l_245 || l_247;
const bool l_249 = l_248 == l_236;
if (l_249) {
shared_memory_7[l_232] = l_239;
const uint32 l_250 = l_232 + uint32(2048);
shared_memory_7[l_250] = l_243;
shared_memory_7[l_237] = l_238;
const uint32 l_251 = l_237 + uint32(2048);
shared_memory_7[l_251] = l_241;
}
l_mut_156 = l_mut_156 + uint32(256);
}
__syncthreads();

l_mut_160 = l_mut_160 / uint32(2);
}
l_mut_164 = l_mut_164 * uint32(2);
}
const bool l_252 = threadIdx.x == uint32(0);
if (l_252) {
const bool l_253 = l_214 >= uint32(64);
if (l_253) {
const uint32 l_254 = shared_memory_7[uint32(63)];
const uint32 l_255 = shared_memory_7[uint32(2111)];
shared_memory_7[uint32(4101)] = l_254;
shared_memory_7[uint32(4102)] = uint32(0);
shared_memory_7[uint32(4103)] = l_255;
const uint32 l_256 = l_254 ^ uint32(4294967295);
const uint32 l_257 = l_256 & uint32(2147483648);
const bool l_258 = l_257 == uint32(0);
const uint32 l_259 = l_256 ^ uint32(4294967295);
const uint32 l_260 = l_256 ^ uint32(2147483648);
const uint32 l_261 = (l_258) ? l_259 : l_260;
const bool l_262 = l_254 == uint32(4294967295);
const uint32 l_263 = (l_262) ? uint32(2143289344) : l_261;
shared_memory_7[uint32(4104)] = l_263;
shared_memory_7[uint32(4098)] = uint32(64);
uint32* l_264 = &shared_memory_8[uint32(0)];
uint32 _tmp_3 = atomicExch(l_264, uint32(64));
}
shared_memory_7[uint32(4100)] = uint32(1);
}
__syncthreads();

const uint32 l_265 = shared_memory_7[uint32(4098)];
const uint32 l_266 = l_0 * uint32(64);

for (uint32 l_mut_267 = threadIdx.x; l_mut_267 < uint32(64); l_mut_267 += uint32(256)) {
const bool l_268 = l_mut_267 < l_265;
const uint32 l_269 = l_266 + l_mut_267;
const uint32 l_270 = shared_memory_7[l_mut_267];
const uint32 l_271 = l_270 ^ uint32(4294967295);
const uint32 l_272 = l_271 & uint32(2147483648);
const bool l_273 = l_272 == uint32(0);
const uint32 l_274 = l_271 ^ uint32(4294967295);
const uint32 l_275 = l_271 ^ uint32(2147483648);
const uint32 l_276 = (l_273) ? l_274 : l_275;
const bool l_277 = l_270 == uint32(4294967295);
const uint32 l_278 = (l_277) ? uint32(2143289344) : l_276;
const uint32 l_279 = (l_268) ? l_278 : uint32(4286578688);
const uint32 l_280 = (l_268) ? uint32(0) : uint32(0);
const float l_281 = reinterpret_cast<float const&>(l_279);
buffer_1[l_269] = l_281;
const uint32 l_282 = l_mut_267 + uint32(2048);
const uint32 l_283 = shared_memory_7[l_282];
const int32 l_284 = int32(l_283);
const int32 l_285 = (l_268) ? l_284 : int32(-1);
buffer_2[l_269] = l_285;
}

}