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
    uint32 static_meta[58];
};


#ifdef __CUDA_ARCH__
__device__ __forceinline__ float largest(float a, float b) {
float x;
asm("max.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(a), "f"(b));
return x;
}
__device__ __forceinline__ float smallest(float a, float b) {
float x;
asm("min.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(a), "f"(b));
return x;
}
#endif

__device__ __forceinline__ void await_kernel_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
asm volatile("griddepcontrol.wait;" ::: "memory");
asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

extern "C" __global__ void __launch_bounds__(256)segmented_map (
    float* buffer_0, float* buffer_1, float* buffer_2, float* buffer_3, const int32* __restrict__ buffer_4, float* buffer_5, float* buffer_6, float* buffer_7, float* buffer_8, float* buffer_9, float* buffer_10, float* buffer_11, float* buffer_12, float* buffer_13, float* buffer_14, float* buffer_15, float* buffer_16, float* buffer_17, float* buffer_18, float* buffer_19, float* buffer_20, float* buffer_21, float* buffer_22, float* buffer_23, float* buffer_24, float* buffer_25, float* buffer_26, float* buffer_27, float* buffer_28, const __grid_constant__ info_st info
) {
await_kernel_before();
uint32 blockIdxGlobal = (blockIdx.z * gridDim.y * gridDim.x) + (blockIdx.y * gridDim.x) + blockIdx.x;
const bool l_0 = blockIdxGlobal >= uint32(196);
const uint32 l_1 = (l_0) ? uint32(1) : uint32(0);
const bool l_2 = blockIdxGlobal >= uint32(197);
const uint32 l_3 = (l_2) ? uint32(2) : l_1;
const bool l_4 = blockIdxGlobal >= uint32(200);
const uint32 l_5 = (l_4) ? uint32(3) : l_3;
const bool l_6 = l_5 >= uint32(1);
const uint32 l_7 = (l_6) ? uint32(196) : uint32(0);
const bool l_8 = l_5 >= uint32(2);
const uint32 l_9 = (l_8) ? uint32(197) : l_7;
const bool l_10 = l_5 >= uint32(3);
const uint32 l_11 = (l_10) ? uint32(200) : l_9;
const uint32 l_12 = blockIdxGlobal - l_11;
const uint32 l_13 = l_12 * uint32(256);
const uint32 l_14 = l_13 + threadIdx.x;
const bool l_15 = l_5 >= uint32(1);
const uint32 l_16 = (l_15) ? uint32(256) : uint32(200704);
const bool l_17 = l_5 >= uint32(2);
const uint32 l_18 = (l_17) ? uint32(2560) : l_16;
const bool l_19 = l_5 >= uint32(3);
const uint32 l_20 = (l_19) ? uint32(10) : l_18;
const uint32 l_21 = l_14 * uint32(4);
const uint32 l_22 = l_21 + uint32(4);
const bool l_23 = l_22 <= l_20;
if (l_23) {
float l_mut_27;
float l_mut_28;
float l_mut_29;
float l_mut_30;
float l_mut_63;
float l_mut_64;
float l_mut_65;
float l_mut_66;
float l_mut_103;
float l_mut_104;
float l_mut_105;
float l_mut_106;
float l_mut_151;
float l_mut_152;
float l_mut_153;
float l_mut_154;
const uint32 l_24 = l_21 + uint32(1);
const uint32 l_25 = l_21 + uint32(2);
const uint32 l_26 = l_21 + uint32(3);
l_mut_27 = float(0.0);
l_mut_28 = float(0.0);
l_mut_29 = float(0.0);
l_mut_30 = float(0.0);
switch(l_5) {
case uint32(0):
{
const uint32 l_31 = l_21 / uint32(4);
 float_4 *_tmp_0 = reinterpret_cast< float_4*>(buffer_0);
const float_4 l_32 = _tmp_0[l_31];
const float l_33 = l_32.i_0;
const float l_34 = l_32.i_1;
const float l_35 = l_32.i_2;
const float l_36 = l_32.i_3;
l_mut_27 = l_33;
l_mut_28 = l_34;
l_mut_29 = l_35;
l_mut_30 = l_36;
break;
}
case uint32(1):
{
const uint32 l_37 = l_21 / uint32(4);
 float_4 *_tmp_1 = reinterpret_cast< float_4*>(buffer_5);
const float_4 l_38 = _tmp_1[l_37];
const float l_39 = l_38.i_0;
const float l_40 = l_38.i_1;
const float l_41 = l_38.i_2;
const float l_42 = l_38.i_3;
l_mut_27 = l_39;
l_mut_28 = l_40;
l_mut_29 = l_41;
l_mut_30 = l_42;
break;
}
case uint32(2):
{
const uint32 l_43 = l_21 / uint32(4);
 float_4 *_tmp_2 = reinterpret_cast< float_4*>(buffer_9);
const float_4 l_44 = _tmp_2[l_43];
const float l_45 = l_44.i_0;
const float l_46 = l_44.i_1;
const float l_47 = l_44.i_2;
const float l_48 = l_44.i_3;
l_mut_27 = l_45;
l_mut_28 = l_46;
l_mut_29 = l_47;
l_mut_30 = l_48;
break;
}
case uint32(3):
{
const uint32 l_49 = l_21 / uint32(4);
 float_4 *_tmp_3 = reinterpret_cast< float_4*>(buffer_13);
const float_4 l_50 = _tmp_3[l_49];
const float l_51 = l_50.i_0;
const float l_52 = l_50.i_1;
const float l_53 = l_50.i_2;
const float l_54 = l_50.i_3;
l_mut_27 = l_51;
l_mut_28 = l_52;
l_mut_29 = l_53;
l_mut_30 = l_54;
break;
}
default:
{break;
}
}
const float l_55 = l_mut_27;
const float l_56 = l_mut_28;
const float l_57 = l_mut_29;
const float l_58 = l_mut_30;
const float l_59 = l_55 * float(0.8999999761581421);
const float l_60 = l_56 * float(0.8999999761581421);
const float l_61 = l_57 * float(0.8999999761581421);
const float l_62 = l_58 * float(0.8999999761581421);
l_mut_63 = float(0.0);
l_mut_64 = float(0.0);
l_mut_65 = float(0.0);
l_mut_66 = float(0.0);
switch(l_5) {
case uint32(0):
{
const uint32 l_67 = l_21 / uint32(4);
 float_4 *_tmp_4 = reinterpret_cast< float_4*>(buffer_1);
const float_4 l_68 = _tmp_4[l_67];
const float l_69 = l_68.i_0;
const float l_70 = l_68.i_1;
const float l_71 = l_68.i_2;
const float l_72 = l_68.i_3;
l_mut_63 = l_69;
l_mut_64 = l_70;
l_mut_65 = l_71;
l_mut_66 = l_72;
break;
}
case uint32(1):
{
const uint32 l_73 = l_21 / uint32(4);
 float_4 *_tmp_5 = reinterpret_cast< float_4*>(buffer_6);
const float_4 l_74 = _tmp_5[l_73];
const float l_75 = l_74.i_0;
const float l_76 = l_74.i_1;
const float l_77 = l_74.i_2;
const float l_78 = l_74.i_3;
l_mut_63 = l_75;
l_mut_64 = l_76;
l_mut_65 = l_77;
l_mut_66 = l_78;
break;
}
case uint32(2):
{
const uint32 l_79 = l_21 / uint32(4);
 float_4 *_tmp_6 = reinterpret_cast< float_4*>(buffer_10);
const float_4 l_80 = _tmp_6[l_79];
const float l_81 = l_80.i_0;
const float l_82 = l_80.i_1;
const float l_83 = l_80.i_2;
const float l_84 = l_80.i_3;
l_mut_63 = l_81;
l_mut_64 = l_82;
l_mut_65 = l_83;
l_mut_66 = l_84;
break;
}
case uint32(3):
{
const uint32 l_85 = l_21 / uint32(4);
 float_4 *_tmp_7 = reinterpret_cast< float_4*>(buffer_14);
const float_4 l_86 = _tmp_7[l_85];
const float l_87 = l_86.i_0;
const float l_88 = l_86.i_1;
const float l_89 = l_86.i_2;
const float l_90 = l_86.i_3;
l_mut_63 = l_87;
l_mut_64 = l_88;
l_mut_65 = l_89;
l_mut_66 = l_90;
break;
}
default:
{break;
}
}
const float l_91 = l_mut_63;
const float l_92 = l_mut_64;
const float l_93 = l_mut_65;
const float l_94 = l_mut_66;
const float l_95 = l_91 * float(0.10000000149011612);
const float l_96 = l_92 * float(0.10000000149011612);
const float l_97 = l_93 * float(0.10000000149011612);
const float l_98 = l_94 * float(0.10000000149011612);
const float l_99 = l_59 + l_95;
const float l_100 = l_60 + l_96;
const float l_101 = l_61 + l_97;
const float l_102 = l_62 + l_98;
l_mut_103 = float(0.0);
l_mut_104 = float(0.0);
l_mut_105 = float(0.0);
l_mut_106 = float(0.0);
switch(l_5) {
case uint32(0):
{
const uint32 l_107 = l_21 / uint32(4);
 float_4 *_tmp_8 = reinterpret_cast< float_4*>(buffer_2);
const float_4 l_108 = _tmp_8[l_107];
const float l_109 = l_108.i_0;
const float l_110 = l_108.i_1;
const float l_111 = l_108.i_2;
const float l_112 = l_108.i_3;
l_mut_103 = l_109;
l_mut_104 = l_110;
l_mut_105 = l_111;
l_mut_106 = l_112;
break;
}
case uint32(1):
{
const uint32 l_113 = l_21 / uint32(4);
 float_4 *_tmp_9 = reinterpret_cast< float_4*>(buffer_7);
const float_4 l_114 = _tmp_9[l_113];
const float l_115 = l_114.i_0;
const float l_116 = l_114.i_1;
const float l_117 = l_114.i_2;
const float l_118 = l_114.i_3;
l_mut_103 = l_115;
l_mut_104 = l_116;
l_mut_105 = l_117;
l_mut_106 = l_118;
break;
}
case uint32(2):
{
const uint32 l_119 = l_21 / uint32(4);
 float_4 *_tmp_10 = reinterpret_cast< float_4*>(buffer_11);
const float_4 l_120 = _tmp_10[l_119];
const float l_121 = l_120.i_0;
const float l_122 = l_120.i_1;
const float l_123 = l_120.i_2;
const float l_124 = l_120.i_3;
l_mut_103 = l_121;
l_mut_104 = l_122;
l_mut_105 = l_123;
l_mut_106 = l_124;
break;
}
case uint32(3):
{
const uint32 l_125 = l_21 / uint32(4);
 float_4 *_tmp_11 = reinterpret_cast< float_4*>(buffer_15);
const float_4 l_126 = _tmp_11[l_125];
const float l_127 = l_126.i_0;
const float l_128 = l_126.i_1;
const float l_129 = l_126.i_2;
const float l_130 = l_126.i_3;
l_mut_103 = l_127;
l_mut_104 = l_128;
l_mut_105 = l_129;
l_mut_106 = l_130;
break;
}
default:
{break;
}
}
const float l_131 = l_mut_103;
const float l_132 = l_mut_104;
const float l_133 = l_mut_105;
const float l_134 = l_mut_106;
const float l_135 = l_131 * float(0.9990000128746033);
const float l_136 = l_132 * float(0.9990000128746033);
const float l_137 = l_133 * float(0.9990000128746033);
const float l_138 = l_134 * float(0.9990000128746033);
const float l_139 = l_91 * l_91;
const float l_140 = l_92 * l_92;
const float l_141 = l_93 * l_93;
const float l_142 = l_94 * l_94;
const float l_143 = l_139 * float(0.0010000000474974513);
const float l_144 = l_140 * float(0.0010000000474974513);
const float l_145 = l_141 * float(0.0010000000474974513);
const float l_146 = l_142 * float(0.0010000000474974513);
const float l_147 = l_135 + l_143;
const float l_148 = l_136 + l_144;
const float l_149 = l_137 + l_145;
const float l_150 = l_138 + l_146;
l_mut_151 = float(0.0);
l_mut_152 = float(0.0);
l_mut_153 = float(0.0);
l_mut_154 = float(0.0);
switch(l_5) {
case uint32(0):
{
const uint32 l_155 = l_21 / uint32(4);
 float_4 *_tmp_12 = reinterpret_cast< float_4*>(buffer_3);
const float_4 l_156 = _tmp_12[l_155];
const float l_157 = l_156.i_0;
const float l_158 = l_156.i_1;
const float l_159 = l_156.i_2;
const float l_160 = l_156.i_3;
l_mut_151 = l_157;
l_mut_152 = l_158;
l_mut_153 = l_159;
l_mut_154 = l_160;
break;
}
case uint32(1):
{
const uint32 l_161 = l_21 / uint32(4);
 float_4 *_tmp_13 = reinterpret_cast< float_4*>(buffer_8);
const float_4 l_162 = _tmp_13[l_161];
const float l_163 = l_162.i_0;
const float l_164 = l_162.i_1;
const float l_165 = l_162.i_2;
const float l_166 = l_162.i_3;
l_mut_151 = l_163;
l_mut_152 = l_164;
l_mut_153 = l_165;
l_mut_154 = l_166;
break;
}
case uint32(2):
{
const uint32 l_167 = l_21 / uint32(4);
 float_4 *_tmp_14 = reinterpret_cast< float_4*>(buffer_12);
const float_4 l_168 = _tmp_14[l_167];
const float l_169 = l_168.i_0;
const float l_170 = l_168.i_1;
const float l_171 = l_168.i_2;
const float l_172 = l_168.i_3;
l_mut_151 = l_169;
l_mut_152 = l_170;
l_mut_153 = l_171;
l_mut_154 = l_172;
break;
}
case uint32(3):
{
const uint32 l_173 = l_21 / uint32(4);
 float_4 *_tmp_15 = reinterpret_cast< float_4*>(buffer_16);
const float_4 l_174 = _tmp_15[l_173];
const float l_175 = l_174.i_0;
const float l_176 = l_174.i_1;
const float l_177 = l_174.i_2;
const float l_178 = l_174.i_3;
l_mut_151 = l_175;
l_mut_152 = l_176;
l_mut_153 = l_177;
l_mut_154 = l_178;
break;
}
default:
{break;
}
}
const float l_179 = l_mut_151;
const float l_180 = l_mut_152;
const float l_181 = l_mut_153;
const float l_182 = l_mut_154;
const int32 l_183 = buffer_4[uint32(0)];
const float l_184 = float(l_183);
const float l_185 = l_184 / float(2344.0);
const float l_186 = float(0.0);
const float l_187 = largest(l_185, l_186);
const float l_188 = float(1.0);
const float l_189 = smallest(l_187, l_188);
const float l_190 = l_189 * float(3.1415927410125732);
const float l_191 = cos(l_190);
const float l_192 = l_191 + float(1.0);
const float l_193 = l_192 * float(0.0009899999713525176);
const float l_194 = l_193 + float(1.9999999494757503e-5);
const float l_195 = l_184 + float(1.0);
const float l_196 = l_195 * float(-0.10536051541566849);
const bool l_197 = l_196 != l_196;
const float l_198 = (l_197) ? float(0.0) : l_196;
const bool l_199 = l_198 > float(89.0);
const float l_200 = (l_199) ? float(89.0) : l_198;
const bool l_201 = l_200 < float(-18.0);
const float l_202 = (l_201) ? float(-18.0) : l_200;
const float l_203 = l_202 * float(1.4426950216293335);
const float l_204 = rint(l_203);
const int32 l_205 = int32(l_204);
const float l_206 = float(l_205);
const float l_207 = fma(l_204, float(-0.693359375), l_202);
const float l_208 = fma(l_206, float(0.00021219444170128554), l_207);
const float l_209 = fma(float(0.00019913932192139328), l_208, float(0.001394113409332931));
const float l_210 = fma(l_209, l_208, float(0.008333273231983185));
const float l_211 = fma(l_210, l_208, float(0.04166635125875473));
const float l_212 = fma(l_211, l_208, float(0.1666666716337204));
const float l_213 = fma(l_212, l_208, float(0.5));
const float l_214 = l_208 * l_208;
const float l_215 = fma(l_214, l_213, l_208);
const int32 l_216 = l_205 - int32(1);
const int32 l_217 = l_216 + int32(127);
const uint32 l_218 = uint32(l_217);
const uint32 l_219 = l_218 << uint32(23);
const float l_220 = reinterpret_cast<float const&>(l_219);
const float l_221 = l_220 - float(0.5);
const float l_222 = fma(l_220, l_215, l_221);
const float l_223 = float(2.0) * l_222;
const bool l_224 = l_196 == float(0.0);
const bool l_225 = l_224 || l_197;
const float l_226 = (l_225) ? l_196 : l_223;
const float l_227 = -l_226;
const float l_228 = l_194 / l_227;
const float l_229 = l_228 * l_99;
const float l_230 = l_228 * l_100;
const float l_231 = l_228 * l_101;
const float l_232 = l_228 * l_102;
const float l_233 = sqrt(l_147);
const float l_234 = sqrt(l_148);
const float l_235 = sqrt(l_149);
const float l_236 = sqrt(l_150);
const float l_237 = l_195 * float(-0.0010005002841353416);
const bool l_238 = l_237 != l_237;
const float l_239 = (l_238) ? float(0.0) : l_237;
const bool l_240 = l_239 > float(89.0);
const float l_241 = (l_240) ? float(89.0) : l_239;
const bool l_242 = l_241 < float(-18.0);
const float l_243 = (l_242) ? float(-18.0) : l_241;
const float l_244 = l_243 * float(1.4426950216293335);
const float l_245 = rint(l_244);
const int32 l_246 = int32(l_245);
const float l_247 = float(l_246);
const float l_248 = fma(l_245, float(-0.693359375), l_243);
const float l_249 = fma(l_247, float(0.00021219444170128554), l_248);
const float l_250 = fma(float(0.00019913932192139328), l_249, float(0.001394113409332931));
const float l_251 = fma(l_250, l_249, float(0.008333273231983185));
const float l_252 = fma(l_251, l_249, float(0.04166635125875473));
const float l_253 = fma(l_252, l_249, float(0.1666666716337204));
const float l_254 = fma(l_253, l_249, float(0.5));
const float l_255 = l_249 * l_249;
const float l_256 = fma(l_255, l_254, l_249);
const int32 l_257 = l_246 - int32(1);
const int32 l_258 = l_257 + int32(127);
const uint32 l_259 = uint32(l_258);
const uint32 l_260 = l_259 << uint32(23);
const float l_261 = reinterpret_cast<float const&>(l_260);
const float l_262 = l_261 - float(0.5);
const float l_263 = fma(l_261, l_256, l_262);
const float l_264 = float(2.0) * l_263;
const bool l_265 = l_237 == float(0.0);
const bool l_266 = l_265 || l_238;
const float l_267 = (l_266) ? l_237 : l_264;
const float l_268 = -l_267;
const float l_269 = sqrt(l_268);
const float l_270 = float(1.0) / l_269;
const float l_271 = l_233 * l_270;
const float l_272 = l_234 * l_270;
const float l_273 = l_235 * l_270;
const float l_274 = l_236 * l_270;
const float l_275 = l_271 + float(9.99999993922529e-9);
const float l_276 = l_272 + float(9.99999993922529e-9);
const float l_277 = l_273 + float(9.99999993922529e-9);
const float l_278 = l_274 + float(9.99999993922529e-9);
const float l_279 = l_229 / l_275;
const float l_280 = l_230 / l_276;
const float l_281 = l_231 / l_277;
const float l_282 = l_232 / l_278;
const float l_283 = l_179 - l_279;
const float l_284 = l_180 - l_280;
const float l_285 = l_181 - l_281;
const float l_286 = l_182 - l_282;
switch(l_5) {
case uint32(0):
{
const uint32 l_287 = l_21 / uint32(4);
const float_4 l_288 = float_4{l_99,l_100,l_101,l_102};
 float_4 *_tmp_16 = reinterpret_cast< float_4*>(buffer_17);
_tmp_16[l_287] = reinterpret_cast< float_4 const&>(l_288);
break;
}
case uint32(1):
{
const uint32 l_289 = l_21 / uint32(4);
const float_4 l_290 = float_4{l_99,l_100,l_101,l_102};
 float_4 *_tmp_17 = reinterpret_cast< float_4*>(buffer_20);
_tmp_17[l_289] = reinterpret_cast< float_4 const&>(l_290);
break;
}
case uint32(2):
{
const uint32 l_291 = l_21 / uint32(4);
const float_4 l_292 = float_4{l_99,l_100,l_101,l_102};
 float_4 *_tmp_18 = reinterpret_cast< float_4*>(buffer_23);
_tmp_18[l_291] = reinterpret_cast< float_4 const&>(l_292);
break;
}
case uint32(3):
{
const uint32 l_293 = l_21 / uint32(4);
const float_4 l_294 = float_4{l_99,l_100,l_101,l_102};
 float_4 *_tmp_19 = reinterpret_cast< float_4*>(buffer_26);
_tmp_19[l_293] = reinterpret_cast< float_4 const&>(l_294);
break;
}
default:
{break;
}
}
switch(l_5) {
case uint32(0):
{
const uint32 l_295 = l_21 / uint32(4);
const float_4 l_296 = float_4{l_147,l_148,l_149,l_150};
 float_4 *_tmp_20 = reinterpret_cast< float_4*>(buffer_18);
_tmp_20[l_295] = reinterpret_cast< float_4 const&>(l_296);
break;
}
case uint32(1):
{
const uint32 l_297 = l_21 / uint32(4);
const float_4 l_298 = float_4{l_147,l_148,l_149,l_150};
 float_4 *_tmp_21 = reinterpret_cast< float_4*>(buffer_21);
_tmp_21[l_297] = reinterpret_cast< float_4 const&>(l_298);
break;
}
case uint32(2):
{
const uint32 l_299 = l_21 / uint32(4);
const float_4 l_300 = float_4{l_147,l_148,l_149,l_150};
 float_4 *_tmp_22 = reinterpret_cast< float_4*>(buffer_24);
_tmp_22[l_299] = reinterpret_cast< float_4 const&>(l_300);
break;
}
case uint32(3):
{
const uint32 l_301 = l_21 / uint32(4);
const float_4 l_302 = float_4{l_147,l_148,l_149,l_150};
 float_4 *_tmp_23 = reinterpret_cast< float_4*>(buffer_27);
_tmp_23[l_301] = reinterpret_cast< float_4 const&>(l_302);
break;
}
default:
{break;
}
}
switch(l_5) {
case uint32(0):
{
const uint32 l_303 = l_21 / uint32(4);
const float_4 l_304 = float_4{l_283,l_284,l_285,l_286};
 float_4 *_tmp_24 = reinterpret_cast< float_4*>(buffer_19);
_tmp_24[l_303] = reinterpret_cast< float_4 const&>(l_304);
break;
}
case uint32(1):
{
const uint32 l_305 = l_21 / uint32(4);
const float_4 l_306 = float_4{l_283,l_284,l_285,l_286};
 float_4 *_tmp_25 = reinterpret_cast< float_4*>(buffer_22);
_tmp_25[l_305] = reinterpret_cast< float_4 const&>(l_306);
break;
}
case uint32(2):
{
const uint32 l_307 = l_21 / uint32(4);
const float_4 l_308 = float_4{l_283,l_284,l_285,l_286};
 float_4 *_tmp_26 = reinterpret_cast< float_4*>(buffer_25);
_tmp_26[l_307] = reinterpret_cast< float_4 const&>(l_308);
break;
}
case uint32(3):
{
const uint32 l_309 = l_21 / uint32(4);
const float_4 l_310 = float_4{l_283,l_284,l_285,l_286};
 float_4 *_tmp_27 = reinterpret_cast< float_4*>(buffer_28);
_tmp_27[l_309] = reinterpret_cast< float_4 const&>(l_310);
break;
}
default:
{break;
}
}
}
const bool l_311 = !l_23;
if (l_311) {

for (uint32 l_mut_312 = l_21; l_mut_312 < l_20; ++l_mut_312) {
float l_mut_313;
float l_mut_320;
float l_mut_328;
float l_mut_338;
l_mut_313 = float(0.0);
switch(l_5) {
case uint32(0):
{
const float l_314 = buffer_0[l_mut_312];
l_mut_313 = l_314;
break;
}
case uint32(1):
{
const float l_315 = buffer_5[l_mut_312];
l_mut_313 = l_315;
break;
}
case uint32(2):
{
const float l_316 = buffer_9[l_mut_312];
l_mut_313 = l_316;
break;
}
case uint32(3):
{
const float l_317 = buffer_13[l_mut_312];
l_mut_313 = l_317;
break;
}
default:
{break;
}
}
const float l_318 = l_mut_313;
const float l_319 = l_318 * float(0.8999999761581421);
l_mut_320 = float(0.0);
switch(l_5) {
case uint32(0):
{
const float l_321 = buffer_1[l_mut_312];
l_mut_320 = l_321;
break;
}
case uint32(1):
{
const float l_322 = buffer_6[l_mut_312];
l_mut_320 = l_322;
break;
}
case uint32(2):
{
const float l_323 = buffer_10[l_mut_312];
l_mut_320 = l_323;
break;
}
case uint32(3):
{
const float l_324 = buffer_14[l_mut_312];
l_mut_320 = l_324;
break;
}
default:
{break;
}
}
const float l_325 = l_mut_320;
const float l_326 = l_325 * float(0.10000000149011612);
const float l_327 = l_319 + l_326;
l_mut_328 = float(0.0);
switch(l_5) {
case uint32(0):
{
const float l_329 = buffer_2[l_mut_312];
l_mut_328 = l_329;
break;
}
case uint32(1):
{
const float l_330 = buffer_7[l_mut_312];
l_mut_328 = l_330;
break;
}
case uint32(2):
{
const float l_331 = buffer_11[l_mut_312];
l_mut_328 = l_331;
break;
}
case uint32(3):
{
const float l_332 = buffer_15[l_mut_312];
l_mut_328 = l_332;
break;
}
default:
{break;
}
}
const float l_333 = l_mut_328;
const float l_334 = l_333 * float(0.9990000128746033);
const float l_335 = l_325 * l_325;
const float l_336 = l_335 * float(0.0010000000474974513);
const float l_337 = l_334 + l_336;
l_mut_338 = float(0.0);
switch(l_5) {
case uint32(0):
{
const float l_339 = buffer_3[l_mut_312];
l_mut_338 = l_339;
break;
}
case uint32(1):
{
const float l_340 = buffer_8[l_mut_312];
l_mut_338 = l_340;
break;
}
case uint32(2):
{
const float l_341 = buffer_12[l_mut_312];
l_mut_338 = l_341;
break;
}
case uint32(3):
{
const float l_342 = buffer_16[l_mut_312];
l_mut_338 = l_342;
break;
}
default:
{break;
}
}
const float l_343 = l_mut_338;
const int32 l_344 = buffer_4[uint32(0)];
const float l_345 = float(l_344);
const float l_346 = l_345 / float(2344.0);
const float l_347 = float(0.0);
const float l_348 = largest(l_346, l_347);
const float l_349 = float(1.0);
const float l_350 = smallest(l_348, l_349);
const float l_351 = l_350 * float(3.1415927410125732);
const float l_352 = cos(l_351);
const float l_353 = l_352 + float(1.0);
const float l_354 = l_353 * float(0.0009899999713525176);
const float l_355 = l_354 + float(1.9999999494757503e-5);
const float l_356 = l_345 + float(1.0);
const float l_357 = l_356 * float(-0.10536051541566849);
const bool l_358 = l_357 != l_357;
const float l_359 = (l_358) ? float(0.0) : l_357;
const bool l_360 = l_359 > float(89.0);
const float l_361 = (l_360) ? float(89.0) : l_359;
const bool l_362 = l_361 < float(-18.0);
const float l_363 = (l_362) ? float(-18.0) : l_361;
const float l_364 = l_363 * float(1.4426950216293335);
const float l_365 = rint(l_364);
const int32 l_366 = int32(l_365);
const float l_367 = float(l_366);
const float l_368 = fma(l_365, float(-0.693359375), l_363);
const float l_369 = fma(l_367, float(0.00021219444170128554), l_368);
const float l_370 = fma(float(0.00019913932192139328), l_369, float(0.001394113409332931));
const float l_371 = fma(l_370, l_369, float(0.008333273231983185));
const float l_372 = fma(l_371, l_369, float(0.04166635125875473));
const float l_373 = fma(l_372, l_369, float(0.1666666716337204));
const float l_374 = fma(l_373, l_369, float(0.5));
const float l_375 = l_369 * l_369;
const float l_376 = fma(l_375, l_374, l_369);
const int32 l_377 = l_366 - int32(1);
const int32 l_378 = l_377 + int32(127);
const uint32 l_379 = uint32(l_378);
const uint32 l_380 = l_379 << uint32(23);
const float l_381 = reinterpret_cast<float const&>(l_380);
const float l_382 = l_381 - float(0.5);
const float l_383 = fma(l_381, l_376, l_382);
const float l_384 = float(2.0) * l_383;
const bool l_385 = l_357 == float(0.0);
const bool l_386 = l_385 || l_358;
const float l_387 = (l_386) ? l_357 : l_384;
const float l_388 = -l_387;
const float l_389 = l_355 / l_388;
const float l_390 = l_389 * l_327;
const float l_391 = sqrt(l_337);
const float l_392 = l_356 * float(-0.0010005002841353416);
const bool l_393 = l_392 != l_392;
const float l_394 = (l_393) ? float(0.0) : l_392;
const bool l_395 = l_394 > float(89.0);
const float l_396 = (l_395) ? float(89.0) : l_394;
const bool l_397 = l_396 < float(-18.0);
const float l_398 = (l_397) ? float(-18.0) : l_396;
const float l_399 = l_398 * float(1.4426950216293335);
const float l_400 = rint(l_399);
const int32 l_401 = int32(l_400);
const float l_402 = float(l_401);
const float l_403 = fma(l_400, float(-0.693359375), l_398);
const float l_404 = fma(l_402, float(0.00021219444170128554), l_403);
const float l_405 = fma(float(0.00019913932192139328), l_404, float(0.001394113409332931));
const float l_406 = fma(l_405, l_404, float(0.008333273231983185));
const float l_407 = fma(l_406, l_404, float(0.04166635125875473));
const float l_408 = fma(l_407, l_404, float(0.1666666716337204));
const float l_409 = fma(l_408, l_404, float(0.5));
const float l_410 = l_404 * l_404;
const float l_411 = fma(l_410, l_409, l_404);
const int32 l_412 = l_401 - int32(1);
const int32 l_413 = l_412 + int32(127);
const uint32 l_414 = uint32(l_413);
const uint32 l_415 = l_414 << uint32(23);
const float l_416 = reinterpret_cast<float const&>(l_415);
const float l_417 = l_416 - float(0.5);
const float l_418 = fma(l_416, l_411, l_417);
const float l_419 = float(2.0) * l_418;
const bool l_420 = l_392 == float(0.0);
const bool l_421 = l_420 || l_393;
const float l_422 = (l_421) ? l_392 : l_419;
const float l_423 = -l_422;
const float l_424 = sqrt(l_423);
const float l_425 = float(1.0) / l_424;
const float l_426 = l_391 * l_425;
const float l_427 = l_426 + float(9.99999993922529e-9);
const float l_428 = l_390 / l_427;
const float l_429 = l_343 - l_428;
switch(l_5) {
case uint32(0):
{
buffer_17[l_mut_312] = l_327;
break;
}
case uint32(1):
{
buffer_20[l_mut_312] = l_327;
break;
}
case uint32(2):
{
buffer_23[l_mut_312] = l_327;
break;
}
case uint32(3):
{
buffer_26[l_mut_312] = l_327;
break;
}
default:
{break;
}
}
switch(l_5) {
case uint32(0):
{
buffer_18[l_mut_312] = l_337;
break;
}
case uint32(1):
{
buffer_21[l_mut_312] = l_337;
break;
}
case uint32(2):
{
buffer_24[l_mut_312] = l_337;
break;
}
case uint32(3):
{
buffer_27[l_mut_312] = l_337;
break;
}
default:
{break;
}
}
switch(l_5) {
case uint32(0):
{
buffer_19[l_mut_312] = l_429;
break;
}
case uint32(1):
{
buffer_22[l_mut_312] = l_429;
break;
}
case uint32(2):
{
buffer_25[l_mut_312] = l_429;
break;
}
case uint32(3):
{
buffer_28[l_mut_312] = l_429;
break;
}
default:
{break;
}
}
}
}

}