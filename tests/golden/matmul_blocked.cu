extern "C" __global__ void __launch_bounds__(256)matmul (
    const float* __restrict__ buffer_0, const float* __restrict__ buffer_1, float* buffer_2, float* buffer_3, float* buffer_4, float* buffer_5, float* buffer_6, const __grid_constant__ info_st info
) {
await_kernel_before();
uint32 blockIdxGlobal = (blockIdx.z * gridDim.y * gridDim.x) + (blockIdx.y * gridDim.x) + blockIdx.x;
extern __shared__ __align__(8) uint8 dynamic_shared_mem[];
// Shared array size: 544, 4352 bytes
float_2 *shared_memory_14 = reinterpret_cast<float_2*>(&dynamic_shared_mem[0]);
// Shared array size: 544, 4352 bytes
float_2 *shared_memory_27 = reinterpret_cast<float_2*>(&dynamic_shared_mem[4352]);
float l_mut_10;
float l_mut_11;
float l_mut_12;
float l_mut_13;
const uint32 l_0 = blockIdxGlobal / uint32(10);
const uint32 l_1 = blockIdxGlobal % uint32(10);
const uint32 l_2 = l_0 / uint32(13);
const uint32 l_3 = l_0 % uint32(13);
const uint32 l_4 = l_3 * uint32(32);
const uint32 l_5 = l_1 * uint32(32);
const uint32 l_6 = l_2 * uint32(120000);
const bool l_7 = l_6 < info.scalars_uint32[0];
const uint32 l_8 = threadIdx.x / uint32(16);
const uint32 l_9 = threadIdx.x % uint32(16);
l_mut_10 = float(0.0);
l_mut_11 = float(0.0);
l_mut_12 = float(0.0);
l_mut_13 = float(0.0);
const uint32 l_15 = threadIdx.x / uint32(16);
const uint32 l_16 = threadIdx.x % uint32(16);
const uint32 l_17 = l_16 * uint32(17);
const uint32 l_18 = l_17 + l_15;
const uint32 l_19 = l_4 + l_15;
const uint32 l_20 = l_2 * uint32(8000);
const uint32 l_21 = l_19 * uint32(20);
const uint32 l_22 = l_20 + l_21;
const uint32 l_23 = l_22 + l_16;
const bool l_24 = l_19 < uint32(400);
const uint32 l_25 = l_19 + uint32(16);
const bool l_26 = l_25 < uint32(400);
const uint32 l_28 = threadIdx.x / uint32(16);
const uint32 l_29 = threadIdx.x % uint32(16);
const uint32 l_30 = l_29 * uint32(17);
const uint32 l_31 = l_30 + l_28;
const uint32 l_32 = l_5 + l_28;
const uint32 l_33 = l_2 * uint32(6000);
const uint32 l_34 = l_32 * uint32(20);
const uint32 l_35 = l_33 + l_34;
const uint32 l_36 = l_35 + l_29;
const bool l_37 = l_32 < uint32(300);
const uint32 l_38 = l_32 + uint32(16);
const bool l_39 = l_38 < uint32(300);
const bool l_40 = l_16 < uint32(20);
const bool l_41 = l_40 && l_7;
const bool l_42 = l_41 && l_24;
const uint32 l_43 = (l_42) ? l_23 : uint32(0);
const float l_44 = buffer_0[l_43];
const float l_45 = (l_42) ? l_44 : float(0.0);
const bool l_46 = l_41 && l_26;
const uint32 l_47 = l_23 + uint32(320);
const uint32 l_48 = (l_46) ? l_47 : uint32(0);
const float l_49 = buffer_0[l_48];
const float l_50 = (l_46) ? l_49 : float(0.0);
const bool l_51 = l_29 < uint32(20);
const bool l_52 = l_51 && l_7;
const bool l_53 = l_52 && l_37;
const uint32 l_54 = (l_53) ? l_36 : uint32(0);
const float l_55 = buffer_1[l_54];
const float l_56 = (l_53) ? l_55 : float(0.0);
const bool l_57 = l_52 && l_39;
const uint32 l_58 = l_36 + uint32(320);
const uint32 l_59 = (l_57) ? l_58 : uint32(0);
const float l_60 = buffer_1[l_59];
const float l_61 = (l_57) ? l_60 : float(0.0);
if (l_7) {
const float_2 l_62 = float_2{l_45,l_50};
shared_memory_14[l_18] = reinterpret_cast< float_2 const&>(l_62);
}
if (l_7) {
const float_2 l_63 = float_2{l_56,l_61};
shared_memory_27[l_31] = reinterpret_cast< float_2 const&>(l_63);
}
__syncthreads();


for (uint32 l_mut_64 = uint32(0); l_mut_64 < uint32(20); l_mut_64 += uint32(16)) {
const uint32 l_65 = l_mut_64 + uint32(16);
const uint32 l_66 = l_65 + l_16;
const bool l_67 = l_66 < uint32(20);
const bool l_68 = l_67 && l_7;
const uint32 l_69 = l_23 + l_65;
const bool l_70 = l_68 && l_24;
const uint32 l_71 = (l_70) ? l_69 : uint32(0);
const float l_72 = buffer_0[l_71];
const float l_73 = (l_70) ? l_72 : float(0.0);
const bool l_74 = l_68 && l_26;
const uint32 l_75 = l_69 + uint32(320);
const uint32 l_76 = (l_74) ? l_75 : uint32(0);
const float l_77 = buffer_0[l_76];
const float l_78 = (l_74) ? l_77 : float(0.0);
const uint32 l_79 = l_65 + l_29;
const bool l_80 = l_79 < uint32(20);
const bool l_81 = l_80 && l_7;
const uint32 l_82 = l_36 + l_65;
const bool l_83 = l_81 && l_37;
const uint32 l_84 = (l_83) ? l_82 : uint32(0);
const float l_85 = buffer_1[l_84];
const float l_86 = (l_83) ? l_85 : float(0.0);
const bool l_87 = l_81 && l_39;
const uint32 l_88 = l_82 + uint32(320);
const uint32 l_89 = (l_87) ? l_88 : uint32(0);
const float l_90 = buffer_1[l_89];
const float l_91 = (l_87) ? l_90 : float(0.0);
const uint32 l_92 = l_mut_64 / uint32(16);
const uint32 l_93 = l_92 + uint32(1);
const uint32 l_94 = l_92 % uint32(2);
const uint32 l_95 = l_93 % uint32(2);

for (uint32 l_mut_96 = uint32(0); l_mut_96 < uint32(16); ++l_mut_96) {
const uint32 l_97 = l_94 * uint32(272);
const uint32 l_98 = l_mut_96 * uint32(17);
const uint32 l_99 = l_97 + l_98;
const uint32 l_100 = l_99 + l_8;
const float_2 l_101 = shared_memory_14[l_100];
const float l_102 = l_101.i_0;
const float l_103 = l_101.i_1;
const uint32 l_104 = l_94 * uint32(272);
const uint32 l_105 = l_mut_96 * uint32(17);
const uint32 l_106 = l_104 + l_105;
const uint32 l_107 = l_106 + l_9;
const float_2 l_108 = shared_memory_27[l_107];
const float l_109 = l_108.i_0;
const float l_110 = l_108.i_1;
const float l_111 = fma(l_102, l_109, l_mut_10);
l_mut_10 = l_111;
const float l_112 = fma(l_102, l_110, l_mut_11);
l_mut_11 = l_112;
const float l_113 = fma(l_103, l_109, l_mut_12);
l_mut_12 = l_113;
const float l_114 = fma(l_103, l_110, l_mut_13);
l_mut_13 = l_114;
}
const uint32 l_115 = l_95 * uint32(272);
const uint32 l_116 = l_115 + l_18;
if (l_7) {
const float_2 l_117 = float_2{l_73,l_78};
shared_memory_14[l_116] = reinterpret_cast< float_2 const&>(l_117);
}
const uint32 l_118 = l_95 * uint32(272);
const uint32 l_119 = l_118 + l_31;
if (l_7) {
const float_2 l_120 = float_2{l_86,l_91};
shared_memory_27[l_119] = reinterpret_cast< float_2 const&>(l_120);
}
__syncthreads();

}
const float l_121 = l_mut_10;
const float l_122 = l_mut_11;
const float l_123 = l_mut_12;
const float l_124 = l_mut_13;
const uint32 l_125 = l_4 + l_8;
const bool l_126 = l_125 < uint32(400);
const uint32 l_127 = l_125 + uint32(16);
const bool l_128 = l_127 < uint32(400);
const uint32 l_129 = l_5 + l_9;
const bool l_130 = l_129 < uint32(300);
const uint32 l_131 = l_129 + uint32(16);
const bool l_132 = l_131 < uint32(300);
const uint32 l_133 = l_125 * uint32(300);
const uint32 l_134 = l_6 + l_133;
const bool l_135 = l_7 && l_126;
const bool l_136 = l_135 && l_130;
const uint32 l_137 = l_134 + l_129;
const bool l_138 = l_7 && l_126;
const bool l_139 = l_138 && l_132;
const uint32 l_140 = l_134 + l_131;
const uint32 l_141 = l_127 * uint32(300);
const uint32 l_142 = l_6 + l_141;
const bool l_143 = l_7 && l_128;
const bool l_144 = l_143 && l_130;
const uint32 l_145 = l_142 + l_129;
const bool l_146 = l_7 && l_128;
const bool l_147 = l_146 && l_132;
const uint32 l_148 = l_142 + l_131;
if (l_136) {
const uint32 l_149 = l_137 % uint32(300);
const float l_150 = buffer_2[l_149];
const uint32 l_151 = l_137 / uint32(300);
const float l_152 = buffer_3[l_151];
const float l_153 = l_121 + l_150;
const float l_154 = l_153 * l_152;
const float l_155 = tanh(l_154);
buffer_4[l_137] = l_155;
}
if (l_139) {
const uint32 l_156 = l_140 % uint32(300);
const float l_157 = buffer_2[l_156];
const uint32 l_158 = l_140 / uint32(300);
const float l_159 = buffer_3[l_158];
const float l_160 = l_122 + l_157;
const float l_161 = l_160 * l_159;
const float l_162 = tanh(l_161);
buffer_4[l_140] = l_162;
}
if (l_144) {
const uint32 l_163 = l_145 % uint32(300);
const float l_164 = buffer_2[l_163];
const uint32 l_165 = l_145 / uint32(300);
const float l_166 = buffer_3[l_165];
const float l_167 = l_123 + l_164;
const float l_168 = l_167 * l_166;
const float l_169 = tanh(l_168);
buffer_4[l_145] = l_169;
}
if (l_147) {
const uint32 l_170 = l_148 % uint32(300);
const float l_171 = buffer_2[l_170];
const uint32 l_172 = l_148 / uint32(300);
const float l_173 = buffer_3[l_172];
const float l_174 = l_124 + l_171;
const float l_175 = l_174 * l_173;
const float l_176 = tanh(l_175);
buffer_4[l_148] = l_176;
}

}