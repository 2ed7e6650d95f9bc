extern "C" __global__ void __launch_bounds__(256)count_digits (
    const uint32* __restrict__ buffer_0, uint32* buffer_1, const __grid_constant__ info_st info
) {
await_kernel_before();
uint32 blockIdxGlobal = (blockIdx.z * gridDim.y * gridDim.x) + (blockIdx.y * gridDim.x) + blockIdx.x;
extern __shared__ __align__(4) uint8 dynamic_shared_mem[];
// Shared array size: 256, 1024 bytes
uint32 *shared_memory_0 = reinterpret_cast<uint32*>(&dynamic_shared_mem[0]);
uint32 l_mut_1;
uint32 l_mut_187;
l_mut_1 = threadIdx.x;
while (true) {
const bool l_2 = l_mut_1 < uint32(256);
const bool l_3 = !l_2;
if (l_3) {
break;}
uint32* l_4 = &shared_memory_0[l_mut_1];
uint32 _tmp_0 = atomicExch(l_4, uint32(0));
l_mut_1 = l_mut_1 + uint32(256);
}
__syncthreads();

const uint32 l_5 = threadIdx.x / uint32(32);
const uint32 l_6 = blockIdxGlobal * uint32(8);
const uint32 l_7 = l_6 + l_5;
const uint32 l_8 = l_7 * uint32(512);
const uint32 l_9 = threadIdx.x % uint32(32);
const uint32 l_10 = l_8 + l_9;
const uint32 l_11 = l_10 + uint32(0);
const bool l_12 = l_11 < info.scalars_uint32[0];
const uint32 l_13 = (l_12) ? l_11 : uint32(0);
const uint32 l_14 = buffer_0[l_13];
const bool l_15 = l_11 < info.scalars_uint32[0];
if (l_15) {
const uint32 l_16 = l_5 * uint32(32);
const uint32 l_17 = l_14 >> info.scalars_uint32[2];
const uint32 l_18 = l_17 & uint32(31);
const uint32 l_19 = l_16 + l_18;
uint32* l_20 = &shared_memory_0[l_19];
const uint32 l_21 = atomicAdd(l_20, uint32(1));
}
const uint32 l_22 = l_10 + uint32(32);
const bool l_23 = l_22 < info.scalars_uint32[0];
const uint32 l_24 = (l_23) ? l_22 : uint32(0);
const uint32 l_25 = buffer_0[l_24];
const bool l_26 = l_22 < info.scalars_uint32[0];
if (l_26) {
const uint32 l_27 = l_5 * uint32(32);
const uint32 l_28 = l_25 >> info.scalars_uint32[2];
const uint32 l_29 = l_28 & uint32(31);
const uint32 l_30 = l_27 + l_29;
uint32* l_31 = &shared_memory_0[l_30];
const uint32 l_32 = atomicAdd(l_31, uint32(1));
}
const uint32 l_33 = l_10 + uint32(64);
const bool l_34 = l_33 < info.scalars_uint32[0];
const uint32 l_35 = (l_34) ? l_33 : uint32(0);
const uint32 l_36 = buffer_0[l_35];
const bool l_37 = l_33 < info.scalars_uint32[0];
if (l_37) {
const uint32 l_38 = l_5 * uint32(32);
const uint32 l_39 = l_36 >> info.scalars_uint32[2];
const uint32 l_40 = l_39 & uint32(31);
const uint32 l_41 = l_38 + l_40;
uint32* l_42 = &shared_memory_0[l_41];
const uint32 l_43 = atomicAdd(l_42, uint32(1));
}
const uint32 l_44 = l_10 + uint32(96);
const bool l_45 = l_44 < info.scalars_uint32[0];
const uint32 l_46 = (l_45) ? l_44 : uint32(0);
const uint32 l_47 = buffer_0[l_46];
const bool l_48 = l_44 < info.scalars_uint32[0];
if (l_48) {
const uint32 l_49 = l_5 * uint32(32);
const uint32 l_50 = l_47 >> info.scalars_uint32[2];
const uint32 l_51 = l_50 & uint32(31);
const uint32 l_52 = l_49 + l_51;
uint32* l_53 = &shared_memory_0[l_52];
const uint32 l_54 = atomicAdd(l_53, uint32(1));
}
const uint32 l_55 = l_10 + uint32(128);
const bool l_56 = l_55 < info.scalars_uint32[0];
const uint32 l_57 = (l_56) ? l_55 : uint32(0);
const uint32 l_58 = buffer_0[l_57];
const bool l_59 = l_55 < info.scalars_uint32[0];
if (l_59) {
const uint32 l_60 = l_5 * uint32(32);
const uint32 l_61 = l_58 >> info.scalars_uint32[2];
const uint32 l_62 = l_61 & uint32(31);
const uint32 l_63 = l_60 + l_62;
uint32* l_64 = &shared_memory_0[l_63];
const uint32 l_65 = atomicAdd(l_64, uint32(1));
}
const uint32 l_66 = l_10 + uint32(160);
const bool l_67 = l_66 < info.scalars_uint32[0];
const uint32 l_68 = (l_67) ? l_66 : uint32(0);
const uint32 l_69 = buffer_0[l_68];
const bool l_70 = l_66 < info.scalars_uint32[0];
if (l_70) {
const uint32 l_71 = l_5 * uint32(32);
const uint32 l_72 = l_69 >> info.scalars_uint32[2];
const uint32 l_73 = l_72 & uint32(31);
const uint32 l_74 = l_71 + l_73;
uint32* l_75 = &shared_memory_0[l_74];
const uint32 l_76 = atomicAdd(l_75, uint32(1));
}
const uint32 l_77 = l_10 + uint32(192);
const bool l_78 = l_77 < info.scalars_uint32[0];
const uint32 l_79 = (l_78) ? l_77 : uint32(0);
const uint32 l_80 = buffer_0[l_79];
const bool l_81 = l_77 < info.scalars_uint32[0];
if (l_81) {
const uint32 l_82 = l_5 * uint32(32);
const uint32 l_83 = l_80 >> info.scalars_uint32[2];
const uint32 l_84 = l_83 & uint32(31);
const uint32 l_85 = l_82 + l_84;
uint32* l_86 = &shared_memory_0[l_85];
const uint32 l_87 = atomicAdd(l_86, uint32(1));
}
const uint32 l_88 = l_10 + uint32(224);
const bool l_89 = l_88 < info.scalars_uint32[0];
const uint32 l_90 = (l_89) ? l_88 : uint32(0);
const uint32 l_91 = buffer_0[l_90];
const bool l_92 = l_88 < info.scalars_uint32[0];
if (l_92) {
const uint32 l_93 = l_5 * uint32(32);
const uint32 l_94 = l_91 >> info.scalars_uint32[2];
const uint32 l_95 = l_94 & uint32(31);
const uint32 l_96 = l_93 + l_95;
uint32* l_97 = &shared_memory_0[l_96];
const uint32 l_98 = atomicAdd(l_97, uint32(1));
}
const uint32 l_99 = l_10 + uint32(256);
const bool l_100 = l_99 < info.scalars_uint32[0];
const uint32 l_101 = (l_100) ? l_99 : uint32(0);
const uint32 l_102 = buffer_0[l_101];
const bool l_103 = l_99 < info.scalars_uint32[0];
if (l_103) {
const uint32 l_104 = l_5 * uint32(32);
const uint32 l_105 = l_102 >> info.scalars_uint32[2];
const uint32 l_106 = l_105 & uint32(31);
const uint32 l_107 = l_104 + l_106;
uint32* l_108 = &shared_memory_0[l_107];
const uint32 l_109 = atomicAdd(l_108, uint32(1));
}
const uint32 l_110 = l_10 + uint32(288);
const bool l_111 = l_110 < info.scalars_uint32[0];
const uint32 l_112 = (l_111) ? l_110 : uint32(0);
const uint32 l_113 = buffer_0[l_112];
const bool l_114 = l_110 < info.scalars_uint32[0];
if (l_114) {
const uint32 l_115 = l_5 * uint32(32);
const uint32 l_116 = l_113 >> info.scalars_uint32[2];
const uint32 l_117 = l_116 & uint32(31);
const uint32 l_118 = l_115 + l_117;
uint32* l_119 = &shared_memory_0[l_118];
const uint32 l_120 = atomicAdd(l_119, uint32(1));
}
const uint32 l_121 = l_10 + uint32(320);
const bool l_122 = l_121 < info.scalars_uint32[0];
const uint32 l_123 = (l_122) ? l_121 : uint32(0);
const uint32 l_124 = buffer_0[l_123];
const bool l_125 = l_121 < info.scalars_uint32[0];
if (l_125) {
const uint32 l_126 = l_5 * uint32(32);
const uint32 l_127 = l_124 >> info.scalars_uint32[2];
const uint32 l_128 = l_127 & uint32(31);
const uint32 l_129 = l_126 + l_128;
uint32* l_130 = &shared_memory_0[l_129];
const uint32 l_131 = atomicAdd(l_130, uint32(1));
}
const uint32 l_132 = l_10 + uint32(352);
const bool l_133 = l_132 < info.scalars_uint32[0];
const uint32 l_134 = (l_133) ? l_132 : uint32(0);
const uint32 l_135 = buffer_0[l_134];
const bool l_136 = l_132 < info.scalars_uint32[0];
if (l_136) {
const uint32 l_137 = l_5 * uint32(32);
const uint32 l_138 = l_135 >> info.scalars_uint32[2];
const uint32 l_139 = l_138 & uint32(31);
const uint32 l_140 = l_137 + l_139;
uint32* l_141 = &shared_memory_0[l_140];
const uint32 l_142 = atomicAdd(l_141, uint32(1));
}
const uint32 l_143 = l_10 + uint32(384);
const bool l_144 = l_143 < info.scalars_uint32[0];
const uint32 l_145 = (l_144) ? l_143 : uint32(0);
const uint32 l_146 = buffer_0[l_145];
const bool l_147 = l_143 < info.scalars_uint32[0];
if (l_147) {
const uint32 l_148 = l_5 * uint32(32);
const uint32 l_149 = l_146 >> info.scalars_uint32[2];
const uint32 l_150 = l_149 & uint32(31);
const uint32 l_151 = l_148 + l_150;
uint32* l_152 = &shared_memory_0[l_151];
const uint32 l_153 = atomicAdd(l_152, uint32(1));
}
const uint32 l_154 = l_10 + uint32(416);
const bool l_155 = l_154 < info.scalars_uint32[0];
const uint32 l_156 = (l_155) ? l_154 : uint32(0);
const uint32 l_157 = buffer_0[l_156];
const bool l_158 = l_154 < info.scalars_uint32[0];
if (l_158) {
const uint32 l_159 = l_5 * uint32(32);
const uint32 l_160 = l_157 >> info.scalars_uint32[2];
const uint32 l_161 = l_160 & uint32(31);
const uint32 l_162 = l_159 + l_161;
uint32* l_163 = &shared_memory_0[l_162];
const uint32 l_164 = atomicAdd(l_163, uint32(1));
}
const uint32 l_165 = l_10 + uint32(448);
const bool l_166 = l_165 < info.scalars_uint32[0];
const uint32 l_167 = (l_166) ? l_165 : uint32(0);
const uint32 l_168 = buffer_0[l_167];
const bool l_169 = l_165 < info.scalars_uint32[0];
if (l_169) {
const uint32 l_170 = l_5 * uint32(32);
const uint32 l_171 = l_168 >> info.scalars_uint32[2];
const uint32 l_172 = l_171 & uint32(31);
const uint32 l_173 = l_170 + l_172;
uint32* l_174 = &shared_memory_0[l_173];
const uint32 l_175 = atomicAdd(l_174, uint32(1));
}
const uint32 l_176 = l_10 + uint32(480);
const bool l_177 = l_176 < info.scalars_uint32[0];
const uint32 l_178 = (l_177) ? l_176 : uint32(0);
const uint32 l_179 = buffer_0[l_178];
const bool l_180 = l_176 < info.scalars_uint32[0];
if (l_180) {
const uint32 l_181 = l_5 * uint32(32);
const uint32 l_182 = l_179 >> info.scalars_uint32[2];
const uint32 l_183 = l_182 & uint32(31);
const uint32 l_184 = l_181 + l_183;
uint32* l_185 = &shared_memory_0[l_184];
const uint32 l_186 = atomicAdd(l_185, uint32(1));
}
__syncthreads();

l_mut_187 = threadIdx.x;
while (true) {
const bool l_188 = l_mut_187 < uint32(256);
const bool l_189 = !l_188;
if (l_189) {
break;}
const uint32 l_190 = l_mut_187 / uint32(8);
const uint32 l_191 = l_mut_187 % uint32(8);
const uint32 l_192 = blockIdxGlobal * uint32(8);
const uint32 l_193 = l_192 + l_191;
const bool l_194 = l_193 < info.scalars_uint32[1];
if (l_194) {
const uint32 l_195 = l_190 * info.scalars_uint32[1];
const uint32 l_196 = l_195 + l_193;
const uint32 l_197 = l_191 * uint32(32);
const uint32 l_198 = l_197 + l_190;
uint32* l_199 = &shared_memory_0[l_198];
const uint32 l_200 = atomicAdd(l_199, uint32(0));
buffer_1[l_196] = l_200;
}
l_mut_187 = l_mut_187 + uint32(256);
}

}
// ---- The next launch.

extern "C" __global__ void __launch_bounds__(256)sum_counts (
    uint32* buffer_0, uint32* buffer_1, const __grid_constant__ info_st info
) {
await_kernel_before();
uint32 blockIdxGlobal = (blockIdx.z * gridDim.y * gridDim.x) + (blockIdx.y * gridDim.x) + blockIdx.x;
extern __shared__ __align__(4) uint8 dynamic_shared_mem[];
// Shared array size: 512, 2048 bytes
uint32 *shared_memory_13 = reinterpret_cast<uint32*>(&dynamic_shared_mem[0]);
uint32 l_mut_7;
uint32 l_mut_8;
uint32 l_mut_14;
uint32 l_mut_15;
uint32 l_mut_16;
const uint32 l_0 = blockIdxGlobal * info.scalars_uint32[0];
const uint32 l_1 = info.scalars_uint32[0] + uint32(255);
const uint32 l_2 = l_1 / uint32(256);
const uint32 l_3 = threadIdx.x * l_2;
const uint32 l_4 = l_3 + l_2;
const bool l_5 = l_4 < info.scalars_uint32[0];
const uint32 l_6 = (l_5) ? l_4 : info.scalars_uint32[0];
l_mut_7 = uint32(0);
l_mut_8 = l_3;
while (true) {
const bool l_9 = l_mut_8 < l_6;
const bool l_10 = !l_9;
if (l_10) {
break;}
const uint32 l_11 = l_0 + l_mut_8;
const uint32 l_12 = buffer_0[l_11];
l_mut_7 = l_mut_7 + l_12;
l_mut_8 = l_mut_8 + uint32(1);
}
l_mut_14 = l_mut_7;
l_mut_7 = l_mut_14;
l_mut_15 = uint32(0);
shared_memory_13[threadIdx.x] = l_mut_7;
__syncthreads();

l_mut_16 = uint32(1);
while (true) {
const bool l_17 = l_mut_16 < uint32(256);
const bool l_18 = !l_17;
if (l_18) {
break;}
const bool l_19 = threadIdx.x < l_mut_16;
const uint32 l_20 = threadIdx.x - l_mut_16;
const uint32 l_21 = (l_19) ? threadIdx.x : l_20;
const uint32 l_22 = l_mut_15 + l_21;
const uint32 l_23 = shared_memory_13[l_22];
const bool l_24 = threadIdx.x < l_mut_16;
const uint32 l_25 = (l_24) ? uint32(0) : l_23;
l_mut_7 = l_mut_7 + l_25;
const uint32 l_26 = uint32(256) - l_mut_15;
l_mut_15 = l_26;
const uint32 l_27 = l_mut_15 + threadIdx.x;
shared_memory_13[l_27] = l_mut_7;
__syncthreads();

l_mut_16 = l_mut_16 * uint32(2);
}
const uint32 l_28 = l_mut_7 - l_mut_14;
l_mut_16 = l_28;
const bool l_29 = threadIdx.x == uint32(255);
if (l_29) {
buffer_1[blockIdxGlobal] = l_mut_7;
}
l_mut_15 = l_3;
while (true) {
const bool l_30 = l_mut_15 < l_6;
const bool l_31 = !l_30;
if (l_31) {
break;}
const uint32 l_32 = l_0 + l_mut_15;
const uint32 l_33 = buffer_0[l_32];
const uint32 l_34 = l_0 + l_mut_15;
buffer_0[l_34] = l_mut_16;
l_mut_16 = l_mut_16 + l_33;
l_mut_15 = l_mut_15 + uint32(1);
}

}
// ---- The next launch.

extern "C" __global__ void __launch_bounds__(32)place_keys (
    const uint32* __restrict__ buffer_0, const uint32* __restrict__ buffer_1, const uint32* __restrict__ buffer_2, const uint32* __restrict__ buffer_3, uint32* buffer_4, uint32* buffer_5, const __grid_constant__ info_st info
) {
await_kernel_before();
uint32 blockIdxGlobal = (blockIdx.z * gridDim.y * gridDim.x) + (blockIdx.y * gridDim.x) + blockIdx.x;
extern __shared__ __align__(4) uint8 dynamic_shared_mem[];
// Shared array size: 32, 128 bytes
uint32 *shared_memory_0 = reinterpret_cast<uint32*>(&dynamic_shared_mem[0]);
// Shared array size: 64, 256 bytes
uint32 *shared_memory_1 = reinterpret_cast<uint32*>(&dynamic_shared_mem[128]);
// Shared array size: 64, 256 bytes
uint32 *shared_memory_84 = reinterpret_cast<uint32*>(&dynamic_shared_mem[384]);
uint32 l_mut_85;
uint32 l_mut_86;
uint32 l_mut_87;
const uint32 l_2 = blockIdxGlobal * uint32(512);
const uint32 l_3 = l_2 + threadIdx.x;
const bool l_4 = l_3 < info.scalars_uint32[0];
const uint32 l_5 = (l_4) ? l_3 : uint32(0);
const uint32 l_6 = buffer_0[l_5];
const uint32 l_7 = buffer_1[l_5];
const uint32 l_8 = l_3 + uint32(32);
const bool l_9 = l_8 < info.scalars_uint32[0];
const uint32 l_10 = (l_9) ? l_8 : uint32(0);
const uint32 l_11 = buffer_0[l_10];
const uint32 l_12 = buffer_1[l_10];
const uint32 l_13 = l_3 + uint32(64);
const bool l_14 = l_13 < info.scalars_uint32[0];
const uint32 l_15 = (l_14) ? l_13 : uint32(0);
const uint32 l_16 = buffer_0[l_15];
const uint32 l_17 = buffer_1[l_15];
const uint32 l_18 = l_3 + uint32(96);
const bool l_19 = l_18 < info.scalars_uint32[0];
const uint32 l_20 = (l_19) ? l_18 : uint32(0);
const uint32 l_21 = buffer_0[l_20];
const uint32 l_22 = buffer_1[l_20];
const uint32 l_23 = l_3 + uint32(128);
const bool l_24 = l_23 < info.scalars_uint32[0];
const uint32 l_25 = (l_24) ? l_23 : uint32(0);
const uint32 l_26 = buffer_0[l_25];
const uint32 l_27 = buffer_1[l_25];
const uint32 l_28 = l_3 + uint32(160);
const bool l_29 = l_28 < info.scalars_uint32[0];
const uint32 l_30 = (l_29) ? l_28 : uint32(0);
const uint32 l_31 = buffer_0[l_30];
const uint32 l_32 = buffer_1[l_30];
const uint32 l_33 = l_3 + uint32(192);
const bool l_34 = l_33 < info.scalars_uint32[0];
const uint32 l_35 = (l_34) ? l_33 : uint32(0);
const uint32 l_36 = buffer_0[l_35];
const uint32 l_37 = buffer_1[l_35];
const uint32 l_38 = l_3 + uint32(224);
const bool l_39 = l_38 < info.scalars_uint32[0];
const uint32 l_40 = (l_39) ? l_38 : uint32(0);
const uint32 l_41 = buffer_0[l_40];
const uint32 l_42 = buffer_1[l_40];
const uint32 l_43 = l_3 + uint32(256);
const bool l_44 = l_43 < info.scalars_uint32[0];
const uint32 l_45 = (l_44) ? l_43 : uint32(0);
const uint32 l_46 = buffer_0[l_45];
const uint32 l_47 = buffer_1[l_45];
const uint32 l_48 = l_3 + uint32(288);
const bool l_49 = l_48 < info.scalars_uint32[0];
const uint32 l_50 = (l_49) ? l_48 : uint32(0);
const uint32 l_51 = buffer_0[l_50];
const uint32 l_52 = buffer_1[l_50];
const uint32 l_53 = l_3 + uint32(320);
const bool l_54 = l_53 < info.scalars_uint32[0];
const uint32 l_55 = (l_54) ? l_53 : uint32(0);
const uint32 l_56 = buffer_0[l_55];
const uint32 l_57 = buffer_1[l_55];
const uint32 l_58 = l_3 + uint32(352);
const bool l_59 = l_58 < info.scalars_uint32[0];
const uint32 l_60 = (l_59) ? l_58 : uint32(0);
const uint32 l_61 = buffer_0[l_60];
const uint32 l_62 = buffer_1[l_60];
const uint32 l_63 = l_3 + uint32(384);
const bool l_64 = l_63 < info.scalars_uint32[0];
const uint32 l_65 = (l_64) ? l_63 : uint32(0);
const uint32 l_66 = buffer_0[l_65];
const uint32 l_67 = buffer_1[l_65];
const uint32 l_68 = l_3 + uint32(416);
const bool l_69 = l_68 < info.scalars_uint32[0];
const uint32 l_70 = (l_69) ? l_68 : uint32(0);
const uint32 l_71 = buffer_0[l_70];
const uint32 l_72 = buffer_1[l_70];
const uint32 l_73 = l_3 + uint32(448);
const bool l_74 = l_73 < info.scalars_uint32[0];
const uint32 l_75 = (l_74) ? l_73 : uint32(0);
const uint32 l_76 = buffer_0[l_75];
const uint32 l_77 = buffer_1[l_75];
const uint32 l_78 = l_3 + uint32(480);
const bool l_79 = l_78 < info.scalars_uint32[0];
const uint32 l_80 = (l_79) ? l_78 : uint32(0);
const uint32 l_81 = buffer_0[l_80];
const uint32 l_82 = buffer_1[l_80];
const uint32 l_83 = buffer_3[threadIdx.x];
l_mut_85 = l_83;
l_mut_86 = uint32(0);
shared_memory_84[threadIdx.x] = l_mut_85;
__syncthreads();

l_mut_87 = uint32(1);
while (true) {
const bool l_88 = l_mut_87 < uint32(32);
const bool l_89 = !l_88;
if (l_89) {
break;}
const bool l_90 = threadIdx.x < l_mut_87;
const uint32 l_91 = threadIdx.x - l_mut_87;
const uint32 l_92 = (l_90) ? threadIdx.x : l_91;
const uint32 l_93 = l_mut_86 + l_92;
const uint32 l_94 = shared_memory_84[l_93];
const bool l_95 = threadIdx.x < l_mut_87;
const uint32 l_96 = (l_95) ? uint32(0) : l_94;
l_mut_85 = l_mut_85 + l_96;
const uint32 l_97 = uint32(32) - l_mut_86;
l_mut_86 = l_97;
const uint32 l_98 = l_mut_86 + threadIdx.x;
shared_memory_84[l_98] = l_mut_85;
__syncthreads();

l_mut_87 = l_mut_87 * uint32(2);
}
const uint32 l_99 = l_mut_85 - l_83;
const uint32 l_100 = threadIdx.x * info.scalars_uint32[1];
const uint32 l_101 = l_100 + blockIdxGlobal;
const uint32 l_102 = buffer_2[l_101];
const uint32 l_103 = l_99 + l_102;
shared_memory_0[threadIdx.x] = l_103;
const uint32 l_104 = l_99 + l_83;
uint32* l_105 = &shared_memory_1[threadIdx.x];
uint32 _tmp_0 = atomicExch(l_105, uint32(0));
const uint32 l_106 = threadIdx.x + uint32(32);
uint32* l_107 = &shared_memory_1[l_106];
uint32 _tmp_1 = atomicExch(l_107, uint32(0));
__syncthreads();

const uint32 l_108 = uint32(1) << threadIdx.x;
const uint32 l_109 = l_108 - uint32(1);
const uint32 l_110 = l_6 >> info.scalars_uint32[2];
const uint32 l_111 = l_110 & uint32(31);
if (l_4) {
uint32* l_112 = &shared_memory_1[l_111];
const uint32 l_113 = atomicOr(l_112, l_108);
}
__syncthreads();

uint32* l_114 = &shared_memory_1[l_111];
const uint32 l_115 = atomicAdd(l_114, uint32(0));
const uint32 l_116 = shared_memory_0[l_111];
const uint32 l_117 = l_115 & l_109;
const uint32 l_118 = uint32(__popc(l_117));
__syncthreads();

if (l_4) {
const bool l_119 = l_118 == uint32(0);
if (l_119) {
const uint32 l_120 = uint32(__popc(l_115));
const uint32 l_121 = l_116 + l_120;
shared_memory_0[l_111] = l_121;
uint32* l_122 = &shared_memory_1[l_111];
uint32 _tmp_2 = atomicExch(l_122, uint32(0));
}
const uint32 l_123 = l_116 + l_118;
buffer_4[l_123] = l_6;
buffer_5[l_123] = l_7;
}
const uint32 l_124 = l_11 >> info.scalars_uint32[2];
const uint32 l_125 = l_124 & uint32(31);
const uint32 l_126 = l_125 + uint32(32);
if (l_9) {
uint32* l_127 = &shared_memory_1[l_126];
const uint32 l_128 = atomicOr(l_127, l_108);
}
__syncthreads();

uint32* l_129 = &shared_memory_1[l_126];
const uint32 l_130 = atomicAdd(l_129, uint32(0));
const uint32 l_131 = shared_memory_0[l_125];
const uint32 l_132 = l_130 & l_109;
const uint32 l_133 = uint32(__popc(l_132));
__syncthreads();

if (l_9) {
const bool l_134 = l_133 == uint32(0);
if (l_134) {
const uint32 l_135 = uint32(__popc(l_130));
const uint32 l_136 = l_131 + l_135;
shared_memory_0[l_125] = l_136;
uint32* l_137 = &shared_memory_1[l_126];
uint32 _tmp_3 = atomicExch(l_137, uint32(0));
}
const uint32 l_138 = l_131 + l_133;
buffer_4[l_138] = l_11;
buffer_5[l_138] = l_12;
}
const uint32 l_139 = l_16 >> info.scalars_uint32[2];
const uint32 l_140 = l_139 & uint32(31);
if (l_14) {
uint32* l_141 = &shared_memory_1[l_140];
const uint32 l_142 = atomicOr(l_141, l_108);
}
__syncthreads();

uint32* l_143 = &shared_memory_1[l_140];
const uint32 l_144 = atomicAdd(l_143, uint32(0));
const uint32 l_145 = shared_memory_0[l_140];
const uint32 l_146 = l_144 & l_109;
const uint32 l_147 = uint32(__popc(l_146));
__syncthreads();

if (l_14) {
const bool l_148 = l_147 == uint32(0);
if (l_148) {
const uint32 l_149 = uint32(__popc(l_144));
const uint32 l_150 = l_145 + l_149;
shared_memory_0[l_140] = l_150;
uint32* l_151 = &shared_memory_1[l_140];
uint32 _tmp_4 = atomicExch(l_151, uint32(0));
}
const uint32 l_152 = l_145 + l_147;
buffer_4[l_152] = l_16;
buffer_5[l_152] = l_17;
}
const uint32 l_153 = l_21 >> info.scalars_uint32[2];
const uint32 l_154 = l_153 & uint32(31);
const uint32 l_155 = l_154 + uint32(32);
if (l_19) {
uint32* l_156 = &shared_memory_1[l_155];
const uint32 l_157 = atomicOr(l_156, l_108);
}
__syncthreads();

uint32* l_158 = &shared_memory_1[l_155];
const uint32 l_159 = atomicAdd(l_158, uint32(0));
const uint32 l_160 = shared_memory_0[l_154];
const uint32 l_161 = l_159 & l_109;
const uint32 l_162 = uint32(__popc(l_161));
__syncthreads();

if (l_19) {
const bool l_163 = l_162 == uint32(0);
if (l_163) {
const uint32 l_164 = uint32(__popc(l_159));
const uint32 l_165 = l_160 + l_164;
shared_memory_0[l_154] = l_165;
uint32* l_166 = &shared_memory_1[l_155];
uint32 _tmp_5 = atomicExch(l_166, uint32(0));
}
const uint32 l_167 = l_160 + l_162;
buffer_4[l_167] = l_21;
buffer_5[l_167] = l_22;
}
const uint32 l_168 = l_26 >> info.scalars_uint32[2];
const uint32 l_169 = l_168 & uint32(31);
if (l_24) {
uint32* l_170 = &shared_memory_1[l_169];
const uint32 l_171 = atomicOr(l_170, l_108);
}
__syncthreads();

uint32* l_172 = &shared_memory_1[l_169];
const uint32 l_173 = atomicAdd(l_172, uint32(0));
const uint32 l_174 = shared_memory_0[l_169];
const uint32 l_175 = l_173 & l_109;
const uint32 l_176 = uint32(__popc(l_175));
__syncthreads();

if (l_24) {
const bool l_177 = l_176 == uint32(0);
if (l_177) {
const uint32 l_178 = uint32(__popc(l_173));
const uint32 l_179 = l_174 + l_178;
shared_memory_0[l_169] = l_179;
uint32* l_180 = &shared_memory_1[l_169];
uint32 _tmp_6 = atomicExch(l_180, uint32(0));
}
const uint32 l_181 = l_174 + l_176;
buffer_4[l_181] = l_26;
buffer_5[l_181] = l_27;
}
const uint32 l_182 = l_31 >> info.scalars_uint32[2];
const uint32 l_183 = l_182 & uint32(31);
const uint32 l_184 = l_183 + uint32(32);
if (l_29) {
uint32* l_185 = &shared_memory_1[l_184];
const uint32 l_186 = atomicOr(l_185, l_108);
}
__syncthreads();

uint32* l_187 = &shared_memory_1[l_184];
const uint32 l_188 = atomicAdd(l_187, uint32(0));
const uint32 l_189 = shared_memory_0[l_183];
const uint32 l_190 = l_188 & l_109;
const uint32 l_191 = uint32(__popc(l_190));
__syncthreads();

if (l_29) {
const bool l_192 = l_191 == uint32(0);
if (l_192) {
const uint32 l_193 = uint32(__popc(l_188));
const uint32 l_194 = l_189 + l_193;
shared_memory_0[l_183] = l_194;
uint32* l_195 = &shared_memory_1[l_184];
uint32 _tmp_7 = atomicExch(l_195, uint32(0));
}
const uint32 l_196 = l_189 + l_191;
buffer_4[l_196] = l_31;
buffer_5[l_196] = l_32;
}
const uint32 l_197 = l_36 >> info.scalars_uint32[2];
const uint32 l_198 = l_197 & uint32(31);
if (l_34) {
uint32* l_199 = &shared_memory_1[l_198];
const uint32 l_200 = atomicOr(l_199, l_108);
}
__syncthreads();

uint32* l_201 = &shared_memory_1[l_198];
const uint32 l_202 = atomicAdd(l_201, uint32(0));
const uint32 l_203 = shared_memory_0[l_198];
const uint32 l_204 = l_202 & l_109;
const uint32 l_205 = uint32(__popc(l_204));
__syncthreads();

if (l_34) {
const bool l_206 = l_205 == uint32(0);
if (l_206) {
const uint32 l_207 = uint32(__popc(l_202));
const uint32 l_208 = l_203 + l_207;
shared_memory_0[l_198] = l_208;
uint32* l_209 = &shared_memory_1[l_198];
uint32 _tmp_8 = atomicExch(l_209, uint32(0));
}
const uint32 l_210 = l_203 + l_205;
buffer_4[l_210] = l_36;
buffer_5[l_210] = l_37;
}
const uint32 l_211 = l_41 >> info.scalars_uint32[2];
const uint32 l_212 = l_211 & uint32(31);
const uint32 l_213 = l_212 + uint32(32);
if (l_39) {
uint32* l_214 = &shared_memory_1[l_213];
const uint32 l_215 = atomicOr(l_214, l_108);
}
__syncthreads();

uint32* l_216 = &shared_memory_1[l_213];
const uint32 l_217 = atomicAdd(l_216, uint32(0));
const uint32 l_218 = shared_memory_0[l_212];
const uint32 l_219 = l_217 & l_109;
const uint32 l_220 = uint32(__popc(l_219));
__syncthreads();

if (l_39) {
const bool l_221 = l_220 == uint32(0);
if (l_221) {
const uint32 l_222 = uint32(__popc(l_217));
const uint32 l_223 = l_218 + l_222;
shared_memory_0[l_212] = l_223;
uint32* l_224 = &shared_memory_1[l_213];
uint32 _tmp_9 = atomicExch(l_224, uint32(0));
}
const uint32 l_225 = l_218 + l_220;
buffer_4[l_225] = l_41;
buffer_5[l_225] = l_42;
}
const uint32 l_226 = l_46 >> info.scalars_uint32[2];
const uint32 l_227 = l_226 & uint32(31);
if (l_44) {
uint32* l_228 = &shared_memory_1[l_227];
const uint32 l_229 = atomicOr(l_228, l_108);
}
__syncthreads();

uint32* l_230 = &shared_memory_1[l_227];
const uint32 l_231 = atomicAdd(l_230, uint32(0));
const uint32 l_232 = shared_memory_0[l_227];
const uint32 l_233 = l_231 & l_109;
const uint32 l_234 = uint32(__popc(l_233));
__syncthreads();

if (l_44) {
const bool l_235 = l_234 == uint32(0);
if (l_235) {
const uint32 l_236 = uint32(__popc(l_231));
const uint32 l_237 = l_232 + l_236;
shared_memory_0[l_227] = l_237;
uint32* l_238 = &shared_memory_1[l_227];
uint32 _tmp_10 = atomicExch(l_238, uint32(0));
}
const uint32 l_239 = l_232 + l_234;
buffer_4[l_239] = l_46;
buffer_5[l_239] = l_47;
}
const uint32 l_240 = l_51 >> info.scalars_uint32[2];
const uint32 l_241 = l_240 & uint32(31);
const uint32 l_242 = l_241 + uint32(32);
if (l_49) {
uint32* l_243 = &shared_memory_1[l_242];
const uint32 l_244 = atomicOr(l_243, l_108);
}
__syncthreads();

uint32* l_245 = &shared_memory_1[l_242];
const uint32 l_246 = atomicAdd(l_245, uint32(0));
const uint32 l_247 = shared_memory_0[l_241];
const uint32 l_248 = l_246 & l_109;
const uint32 l_249 = uint32(__popc(l_248));
__syncthreads();

if (l_49) {
const bool l_250 = l_249 == uint32(0);
if (l_250) {
const uint32 l_251 = uint32(__popc(l_246));
const uint32 l_252 = l_247 + l_251;
shared_memory_0[l_241] = l_252;
uint32* l_253 = &shared_memory_1[l_242];
uint32 _tmp_11 = atomicExch(l_253, uint32(0));
}
const uint32 l_254 = l_247 + l_249;
buffer_4[l_254] = l_51;
buffer_5[l_254] = l_52;
}
const uint32 l_255 = l_56 >> info.scalars_uint32[2];
const uint32 l_256 = l_255 & uint32(31);
if (l_54) {
uint32* l_257 = &shared_memory_1[l_256];
const uint32 l_258 = atomicOr(l_257, l_108);
}
__syncthreads();

uint32* l_259 = &shared_memory_1[l_256];
const uint32 l_260 = atomicAdd(l_259, uint32(0));
const uint32 l_261 = shared_memory_0[l_256];
const uint32 l_262 = l_260 & l_109;
const uint32 l_263 = uint32(__popc(l_262));
__syncthreads();

if (l_54) {
const bool l_264 = l_263 == uint32(0);
if (l_264) {
const uint32 l_265 = uint32(__popc(l_260));
const uint32 l_266 = l_261 + l_265;
shared_memory_0[l_256] = l_266;
uint32* l_267 = &shared_memory_1[l_256];
uint32 _tmp_12 = atomicExch(l_267, uint32(0));
}
const uint32 l_268 = l_261 + l_263;
buffer_4[l_268] = l_56;
buffer_5[l_268] = l_57;
}
const uint32 l_269 = l_61 >> info.scalars_uint32[2];
const uint32 l_270 = l_269 & uint32(31);
const uint32 l_271 = l_270 + uint32(32);
if (l_59) {
uint32* l_272 = &shared_memory_1[l_271];
const uint32 l_273 = atomicOr(l_272, l_108);
}
__syncthreads();

uint32* l_274 = &shared_memory_1[l_271];
const uint32 l_275 = atomicAdd(l_274, uint32(0));
const uint32 l_276 = shared_memory_0[l_270];
const uint32 l_277 = l_275 & l_109;
const uint32 l_278 = uint32(__popc(l_277));
__syncthreads();

if (l_59) {
const bool l_279 = l_278 == uint32(0);
if (l_279) {
const uint32 l_280 = uint32(__popc(l_275));
const uint32 l_281 = l_276 + l_280;
shared_memory_0[l_270] = l_281;
uint32* l_282 = &shared_memory_1[l_271];
uint32 _tmp_13 = atomicExch(l_282, uint32(0));
}
const uint32 l_283 = l_276 + l_278;
buffer_4[l_283] = l_61;
buffer_5[l_283] = l_62;
}
const uint32 l_284 = l_66 >> info.scalars_uint32[2];
const uint32 l_285 = l_284 & uint32(31);
if (l_64) {
uint32* l_286 = &shared_memory_1[l_285];
const uint32 l_287 = atomicOr(l_286, l_108);
}
__syncthreads();

uint32* l_288 = &shared_memory_1[l_285];
const uint32 l_289 = atomicAdd(l_288, uint32(0));
const uint32 l_290 = shared_memory_0[l_285];
const uint32 l_291 = l_289 & l_109;
const uint32 l_292 = uint32(__popc(l_291));
__syncthreads();

if (l_64) {
const bool l_293 = l_292 == uint32(0);
if (l_293) {
const uint32 l_294 = uint32(__popc(l_289));
const uint32 l_295 = l_290 + l_294;
shared_memory_0[l_285] = l_295;
uint32* l_296 = &shared_memory_1[l_285];
uint32 _tmp_14 = atomicExch(l_296, uint32(0));
}
const uint32 l_297 = l_290 + l_292;
buffer_4[l_297] = l_66;
buffer_5[l_297] = l_67;
}
const uint32 l_298 = l_71 >> info.scalars_uint32[2];
const uint32 l_299 = l_298 & uint32(31);
const uint32 l_300 = l_299 + uint32(32);
if (l_69) {
uint32* l_301 = &shared_memory_1[l_300];
const uint32 l_302 = atomicOr(l_301, l_108);
}
__syncthreads();

uint32* l_303 = &shared_memory_1[l_300];
const uint32 l_304 = atomicAdd(l_303, uint32(0));
const uint32 l_305 = shared_memory_0[l_299];
const uint32 l_306 = l_304 & l_109;
const uint32 l_307 = uint32(__popc(l_306));
__syncthreads();

if (l_69) {
const bool l_308 = l_307 == uint32(0);
if (l_308) {
const uint32 l_309 = uint32(__popc(l_304));
const uint32 l_310 = l_305 + l_309;
shared_memory_0[l_299] = l_310;
uint32* l_311 = &shared_memory_1[l_300];
uint32 _tmp_15 = atomicExch(l_311, uint32(0));
}
const uint32 l_312 = l_305 + l_307;
buffer_4[l_312] = l_71;
buffer_5[l_312] = l_72;
}
const uint32 l_313 = l_76 >> info.scalars_uint32[2];
const uint32 l_314 = l_313 & uint32(31);
if (l_74) {
uint32* l_315 = &shared_memory_1[l_314];
const uint32 l_316 = atomicOr(l_315, l_108);
}
__syncthreads();

uint32* l_317 = &shared_memory_1[l_314];
const uint32 l_318 = atomicAdd(l_317, uint32(0));
const uint32 l_319 = shared_memory_0[l_314];
const uint32 l_320 = l_318 & l_109;
const uint32 l_321 = uint32(__popc(l_320));
__syncthreads();

if (l_74) {
const bool l_322 = l_321 == uint32(0);
if (l_322) {
const uint32 l_323 = uint32(__popc(l_318));
const uint32 l_324 = l_319 + l_323;
shared_memory_0[l_314] = l_324;
uint32* l_325 = &shared_memory_1[l_314];
uint32 _tmp_16 = atomicExch(l_325, uint32(0));
}
const uint32 l_326 = l_319 + l_321;
buffer_4[l_326] = l_76;
buffer_5[l_326] = l_77;
}
const uint32 l_327 = l_81 >> info.scalars_uint32[2];
const uint32 l_328 = l_327 & uint32(31);
const uint32 l_329 = l_328 + uint32(32);
if (l_79) {
uint32* l_330 = &shared_memory_1[l_329];
const uint32 l_331 = atomicOr(l_330, l_108);
}
__syncthreads();

uint32* l_332 = &shared_memory_1[l_329];
const uint32 l_333 = atomicAdd(l_332, uint32(0));
const uint32 l_334 = shared_memory_0[l_328];
const uint32 l_335 = l_333 & l_109;
const uint32 l_336 = uint32(__popc(l_335));
__syncthreads();

if (l_79) {
const bool l_337 = l_336 == uint32(0);
if (l_337) {
const uint32 l_338 = uint32(__popc(l_333));
const uint32 l_339 = l_334 + l_338;
shared_memory_0[l_328] = l_339;
uint32* l_340 = &shared_memory_1[l_329];
uint32 _tmp_17 = atomicExch(l_340, uint32(0));
}
const uint32 l_341 = l_334 + l_336;
buffer_4[l_341] = l_81;
buffer_5[l_341] = l_82;
}

}