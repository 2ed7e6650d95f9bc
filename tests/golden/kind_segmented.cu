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
const float l_197 = l_196 * float(0.5);
const float l_198 = tanh(l_197);
const float l_199 = l_198 + l_198;
const float l_200 = float(1.0) - l_198;
const float l_201 = l_199 / l_200;
const float l_202 = exp(l_196);
const float l_203 = l_202 - float(1.0);
const float l_204 = abs(l_196);
const bool l_205 = l_204 < float(1.0);
const float l_206 = (l_205) ? l_201 : l_203;
const float l_207 = -l_206;
const float l_208 = l_194 / l_207;
const float l_209 = l_208 * l_99;
const float l_210 = l_208 * l_100;
const float l_211 = l_208 * l_101;
const float l_212 = l_208 * l_102;
const float l_213 = sqrt(l_147);
const float l_214 = sqrt(l_148);
const float l_215 = sqrt(l_149);
const float l_216 = sqrt(l_150);
const float l_217 = l_195 * float(-0.0010005002841353416);
const float l_218 = l_217 * float(0.5);
const float l_219 = tanh(l_218);
const float l_220 = l_219 + l_219;
const float l_221 = float(1.0) - l_219;
const float l_222 = l_220 / l_221;
const float l_223 = exp(l_217);
const float l_224 = l_223 - float(1.0);
const float l_225 = abs(l_217);
const bool l_226 = l_225 < float(1.0);
const float l_227 = (l_226) ? l_222 : l_224;
const float l_228 = -l_227;
const float l_229 = sqrt(l_228);
const float l_230 = float(1.0) / l_229;
const float l_231 = l_213 * l_230;
const float l_232 = l_214 * l_230;
const float l_233 = l_215 * l_230;
const float l_234 = l_216 * l_230;
const float l_235 = l_231 + float(9.99999993922529e-9);
const float l_236 = l_232 + float(9.99999993922529e-9);
const float l_237 = l_233 + float(9.99999993922529e-9);
const float l_238 = l_234 + float(9.99999993922529e-9);
const float l_239 = l_209 / l_235;
const float l_240 = l_210 / l_236;
const float l_241 = l_211 / l_237;
const float l_242 = l_212 / l_238;
const float l_243 = l_179 - l_239;
const float l_244 = l_180 - l_240;
const float l_245 = l_181 - l_241;
const float l_246 = l_182 - l_242;
switch(l_5) {
case uint32(0):
{
const uint32 l_247 = l_21 / uint32(4);
const float_4 l_248 = float_4{l_99,l_100,l_101,l_102};
 float_4 *_tmp_16 = reinterpret_cast< float_4*>(buffer_17);
_tmp_16[l_247] = reinterpret_cast< float_4 const&>(l_248);
break;
}
case uint32(1):
{
const uint32 l_249 = l_21 / uint32(4);
const float_4 l_250 = float_4{l_99,l_100,l_101,l_102};
 float_4 *_tmp_17 = reinterpret_cast< float_4*>(buffer_20);
_tmp_17[l_249] = reinterpret_cast< float_4 const&>(l_250);
break;
}
case uint32(2):
{
const uint32 l_251 = l_21 / uint32(4);
const float_4 l_252 = float_4{l_99,l_100,l_101,l_102};
 float_4 *_tmp_18 = reinterpret_cast< float_4*>(buffer_23);
_tmp_18[l_251] = reinterpret_cast< float_4 const&>(l_252);
break;
}
case uint32(3):
{
const uint32 l_253 = l_21 / uint32(4);
const float_4 l_254 = float_4{l_99,l_100,l_101,l_102};
 float_4 *_tmp_19 = reinterpret_cast< float_4*>(buffer_26);
_tmp_19[l_253] = reinterpret_cast< float_4 const&>(l_254);
break;
}
default:
{break;
}
}
switch(l_5) {
case uint32(0):
{
const uint32 l_255 = l_21 / uint32(4);
const float_4 l_256 = float_4{l_147,l_148,l_149,l_150};
 float_4 *_tmp_20 = reinterpret_cast< float_4*>(buffer_18);
_tmp_20[l_255] = reinterpret_cast< float_4 const&>(l_256);
break;
}
case uint32(1):
{
const uint32 l_257 = l_21 / uint32(4);
const float_4 l_258 = float_4{l_147,l_148,l_149,l_150};
 float_4 *_tmp_21 = reinterpret_cast< float_4*>(buffer_21);
_tmp_21[l_257] = reinterpret_cast< float_4 const&>(l_258);
break;
}
case uint32(2):
{
const uint32 l_259 = l_21 / uint32(4);
const float_4 l_260 = float_4{l_147,l_148,l_149,l_150};
 float_4 *_tmp_22 = reinterpret_cast< float_4*>(buffer_24);
_tmp_22[l_259] = reinterpret_cast< float_4 const&>(l_260);
break;
}
case uint32(3):
{
const uint32 l_261 = l_21 / uint32(4);
const float_4 l_262 = float_4{l_147,l_148,l_149,l_150};
 float_4 *_tmp_23 = reinterpret_cast< float_4*>(buffer_27);
_tmp_23[l_261] = reinterpret_cast< float_4 const&>(l_262);
break;
}
default:
{break;
}
}
switch(l_5) {
case uint32(0):
{
const uint32 l_263 = l_21 / uint32(4);
const float_4 l_264 = float_4{l_243,l_244,l_245,l_246};
 float_4 *_tmp_24 = reinterpret_cast< float_4*>(buffer_19);
_tmp_24[l_263] = reinterpret_cast< float_4 const&>(l_264);
break;
}
case uint32(1):
{
const uint32 l_265 = l_21 / uint32(4);
const float_4 l_266 = float_4{l_243,l_244,l_245,l_246};
 float_4 *_tmp_25 = reinterpret_cast< float_4*>(buffer_22);
_tmp_25[l_265] = reinterpret_cast< float_4 const&>(l_266);
break;
}
case uint32(2):
{
const uint32 l_267 = l_21 / uint32(4);
const float_4 l_268 = float_4{l_243,l_244,l_245,l_246};
 float_4 *_tmp_26 = reinterpret_cast< float_4*>(buffer_25);
_tmp_26[l_267] = reinterpret_cast< float_4 const&>(l_268);
break;
}
case uint32(3):
{
const uint32 l_269 = l_21 / uint32(4);
const float_4 l_270 = float_4{l_243,l_244,l_245,l_246};
 float_4 *_tmp_27 = reinterpret_cast< float_4*>(buffer_28);
_tmp_27[l_269] = reinterpret_cast< float_4 const&>(l_270);
break;
}
default:
{break;
}
}
}
const bool l_271 = !l_23;
if (l_271) {

for (uint32 l_mut_272 = l_21; l_mut_272 < l_20; ++l_mut_272) {
float l_mut_273;
float l_mut_280;
float l_mut_288;
float l_mut_298;
l_mut_273 = float(0.0);
switch(l_5) {
case uint32(0):
{
const float l_274 = buffer_0[l_mut_272];
l_mut_273 = l_274;
break;
}
case uint32(1):
{
const float l_275 = buffer_5[l_mut_272];
l_mut_273 = l_275;
break;
}
case uint32(2):
{
const float l_276 = buffer_9[l_mut_272];
l_mut_273 = l_276;
break;
}
case uint32(3):
{
const float l_277 = buffer_13[l_mut_272];
l_mut_273 = l_277;
break;
}
default:
{break;
}
}
const float l_278 = l_mut_273;
const float l_279 = l_278 * float(0.8999999761581421);
l_mut_280 = float(0.0);
switch(l_5) {
case uint32(0):
{
const float l_281 = buffer_1[l_mut_272];
l_mut_280 = l_281;
break;
}
case uint32(1):
{
const float l_282 = buffer_6[l_mut_272];
l_mut_280 = l_282;
break;
}
case uint32(2):
{
const float l_283 = buffer_10[l_mut_272];
l_mut_280 = l_283;
break;
}
case uint32(3):
{
const float l_284 = buffer_14[l_mut_272];
l_mut_280 = l_284;
break;
}
default:
{break;
}
}
const float l_285 = l_mut_280;
const float l_286 = l_285 * float(0.10000000149011612);
const float l_287 = l_279 + l_286;
l_mut_288 = float(0.0);
switch(l_5) {
case uint32(0):
{
const float l_289 = buffer_2[l_mut_272];
l_mut_288 = l_289;
break;
}
case uint32(1):
{
const float l_290 = buffer_7[l_mut_272];
l_mut_288 = l_290;
break;
}
case uint32(2):
{
const float l_291 = buffer_11[l_mut_272];
l_mut_288 = l_291;
break;
}
case uint32(3):
{
const float l_292 = buffer_15[l_mut_272];
l_mut_288 = l_292;
break;
}
default:
{break;
}
}
const float l_293 = l_mut_288;
const float l_294 = l_293 * float(0.9990000128746033);
const float l_295 = l_285 * l_285;
const float l_296 = l_295 * float(0.0010000000474974513);
const float l_297 = l_294 + l_296;
l_mut_298 = float(0.0);
switch(l_5) {
case uint32(0):
{
const float l_299 = buffer_3[l_mut_272];
l_mut_298 = l_299;
break;
}
case uint32(1):
{
const float l_300 = buffer_8[l_mut_272];
l_mut_298 = l_300;
break;
}
case uint32(2):
{
const float l_301 = buffer_12[l_mut_272];
l_mut_298 = l_301;
break;
}
case uint32(3):
{
const float l_302 = buffer_16[l_mut_272];
l_mut_298 = l_302;
break;
}
default:
{break;
}
}
const float l_303 = l_mut_298;
const int32 l_304 = buffer_4[uint32(0)];
const float l_305 = float(l_304);
const float l_306 = l_305 / float(2344.0);
const float l_307 = float(0.0);
const float l_308 = largest(l_306, l_307);
const float l_309 = float(1.0);
const float l_310 = smallest(l_308, l_309);
const float l_311 = l_310 * float(3.1415927410125732);
const float l_312 = cos(l_311);
const float l_313 = l_312 + float(1.0);
const float l_314 = l_313 * float(0.0009899999713525176);
const float l_315 = l_314 + float(1.9999999494757503e-5);
const float l_316 = l_305 + float(1.0);
const float l_317 = l_316 * float(-0.10536051541566849);
const float l_318 = l_317 * float(0.5);
const float l_319 = tanh(l_318);
const float l_320 = l_319 + l_319;
const float l_321 = float(1.0) - l_319;
const float l_322 = l_320 / l_321;
const float l_323 = exp(l_317);
const float l_324 = l_323 - float(1.0);
const float l_325 = abs(l_317);
const bool l_326 = l_325 < float(1.0);
const float l_327 = (l_326) ? l_322 : l_324;
const float l_328 = -l_327;
const float l_329 = l_315 / l_328;
const float l_330 = l_329 * l_287;
const float l_331 = sqrt(l_297);
const float l_332 = l_316 * float(-0.0010005002841353416);
const float l_333 = l_332 * float(0.5);
const float l_334 = tanh(l_333);
const float l_335 = l_334 + l_334;
const float l_336 = float(1.0) - l_334;
const float l_337 = l_335 / l_336;
const float l_338 = exp(l_332);
const float l_339 = l_338 - float(1.0);
const float l_340 = abs(l_332);
const bool l_341 = l_340 < float(1.0);
const float l_342 = (l_341) ? l_337 : l_339;
const float l_343 = -l_342;
const float l_344 = sqrt(l_343);
const float l_345 = float(1.0) / l_344;
const float l_346 = l_331 * l_345;
const float l_347 = l_346 + float(9.99999993922529e-9);
const float l_348 = l_330 / l_347;
const float l_349 = l_303 - l_348;
switch(l_5) {
case uint32(0):
{
buffer_17[l_mut_272] = l_287;
break;
}
case uint32(1):
{
buffer_20[l_mut_272] = l_287;
break;
}
case uint32(2):
{
buffer_23[l_mut_272] = l_287;
break;
}
case uint32(3):
{
buffer_26[l_mut_272] = l_287;
break;
}
default:
{break;
}
}
switch(l_5) {
case uint32(0):
{
buffer_18[l_mut_272] = l_297;
break;
}
case uint32(1):
{
buffer_21[l_mut_272] = l_297;
break;
}
case uint32(2):
{
buffer_24[l_mut_272] = l_297;
break;
}
case uint32(3):
{
buffer_27[l_mut_272] = l_297;
break;
}
default:
{break;
}
}
switch(l_5) {
case uint32(0):
{
buffer_19[l_mut_272] = l_349;
break;
}
case uint32(1):
{
buffer_22[l_mut_272] = l_349;
break;
}
case uint32(2):
{
buffer_25[l_mut_272] = l_349;
break;
}
case uint32(3):
{
buffer_28[l_mut_272] = l_349;
break;
}
default:
{break;
}
}
}
}

}