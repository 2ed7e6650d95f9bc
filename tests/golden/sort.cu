extern "C" __global__ void __launch_bounds__(256)sort_rows (
    uint32* buffer_0, uint32* buffer_1, uint32* buffer_2, const __grid_constant__ info_st info
) {
uint32 blockIdxGlobal = (blockIdx.z * gridDim.y * gridDim.x) + (blockIdx.y * gridDim.x) + blockIdx.x;
extern __shared__ __align__(4) uint8 dynamic_shared_mem[];
// Shared array size: 2048, 8192 bytes
uint32 *shared_memory_1 = reinterpret_cast<uint32*>(&dynamic_shared_mem[0]);
uint32 l_mut_2;
uint32 l_mut_27;
uint32 l_mut_31;
uint32 l_mut_34;
const uint32 l_0 = blockIdxGlobal * uint32(4);
l_mut_2 = threadIdx.x;
while (true) {
const bool l_3 = l_mut_2 < uint32(1024);
const bool l_4 = !l_3;
if (l_4) {
break;}
const uint32 l_5 = l_mut_2 / uint32(256);
const uint32 l_6 = l_0 + l_5;
const uint32 l_7 = l_mut_2 % uint32(256);
const bool l_8 = l_6 < info.scalars_uint32[0];
const bool l_9 = l_7 < uint32(200);
const bool l_10 = l_8 && l_9;
if (l_10) {
const uint32 l_11 = l_6 * uint32(200);
const uint32 l_12 = l_11 + l_7;
const uint32 l_13 = buffer_0[l_12];
const uint32 l_14 = l_13 & uint32(2147483648);
const bool l_15 = l_14 == uint32(0);
const uint32 l_16 = l_13 & uint32(2147483647);
const bool l_17 = l_16 == uint32(0);
const bool l_18 = l_15 || l_17;
const uint32 l_19 = l_13 | uint32(2147483648);
const uint32 l_20 = l_13 ^ uint32(4294967295);
const uint32 l_21 = (l_18) ? l_19 : l_20;
const uint32 l_22 = l_13 & uint32(2147483647);
const bool l_23 = l_22 > uint32(2139095040);
const uint32 l_24 = (l_23) ? uint32(4294967295) : l_21;
shared_memory_1[l_mut_2] = l_24;
const uint32 l_25 = l_mut_2 + uint32(1024);
shared_memory_1[l_25] = l_7;
} else {
shared_memory_1[l_mut_2] = uint32(4294967295);
const uint32 l_26 = l_mut_2 + uint32(1024);
shared_memory_1[l_26] = uint32(4294967295);
}
l_mut_2 = l_mut_2 + uint32(256);
}
__syncthreads();

l_mut_27 = uint32(2);
while (true) {
const bool l_28 = l_mut_27 <= uint32(256);
const bool l_29 = !l_28;
if (l_29) {
break;}
const uint32 l_30 = l_mut_27 / uint32(2);
l_mut_31 = l_30;
while (true) {
const bool l_32 = l_mut_31 > uint32(0);
const bool l_33 = !l_32;
if (l_33) {
break;}
l_mut_34 = threadIdx.x;
while (true) {
const uint32 l_35 = uint32(1024) / uint32(2);
const bool l_36 = l_mut_34 < l_35;
const bool l_37 = !l_36;
if (l_37) {
break;}
const uint32 l_38 = uint32(2) * l_mut_34;
const uint32 l_39 = l_mut_31 - uint32(1);
const uint32 l_40 = l_mut_34 & l_39;
const uint32 l_41 = l_38 - l_40;
const uint32 l_42 = l_41 & uint32(255);
const uint32 l_43 = l_42 & l_mut_27;
const bool l_44 = l_43 == uint32(0);
const uint32 l_45 = l_41 + l_mut_31;
const uint32 l_46 = shared_memory_1[l_41];
const uint32 l_47 = shared_memory_1[l_45];
const uint32 l_48 = l_41 + uint32(1024);
const uint32 l_49 = shared_memory_1[l_48];
const uint32 l_50 = l_45 + uint32(1024);
const uint32 l_51 = shared_memory_1[l_50];
const bool l_52 = l_51 < l_49;
const bool l_53 = l_47 < l_46;
const bool l_54 = l_47 == l_46;
const bool l_55 = l_54 && l_52;
const bool l_56 = l_53 || l_55;
const bool l_57 = l_56 == l_44;
if (l_57) {
shared_memory_1[l_41] = l_47;
const uint32 l_58 = l_41 + uint32(1024);
shared_memory_1[l_58] = l_51;
shared_memory_1[l_45] = l_46;
const uint32 l_59 = l_45 + uint32(1024);
shared_memory_1[l_59] = l_49;
}
l_mut_34 = l_mut_34 + uint32(256);
}
__syncthreads();

l_mut_31 = l_mut_31 / uint32(2);
}
l_mut_27 = l_mut_27 * uint32(2);
}
l_mut_34 = threadIdx.x;
while (true) {
const bool l_60 = l_mut_34 < uint32(1024);
const bool l_61 = !l_60;
if (l_61) {
break;}
const uint32 l_62 = l_mut_34 / uint32(256);
const uint32 l_63 = l_0 + l_62;
const uint32 l_64 = l_mut_34 % uint32(256);
const bool l_65 = l_63 < info.scalars_uint32[0];
const bool l_66 = l_64 < uint32(200);
const bool l_67 = l_65 && l_66;
if (l_67) {
const uint32 l_68 = l_63 * uint32(200);
const uint32 l_69 = l_68 + l_64;
const bool l_70 = l_64 < uint32(200);
if (l_70) {
const uint32 l_71 = l_mut_34 + uint32(1024);
const uint32 l_72 = shared_memory_1[l_71];
const uint32 l_73 = shared_memory_1[l_mut_34];
const uint32 l_74 = l_73 & uint32(2147483648);
const bool l_75 = l_74 == uint32(0);
const uint32 l_76 = l_73 ^ uint32(4294967295);
const uint32 l_77 = l_73 ^ uint32(2147483648);
const uint32 l_78 = (l_75) ? l_76 : l_77;
const bool l_79 = l_73 == uint32(4294967295);
const uint32 l_80 = (l_79) ? uint32(2143289344) : l_78;
buffer_1[l_69] = l_80;
buffer_2[l_69] = l_72;
} else {
buffer_1[l_69] = uint32(2139095040);
buffer_2[l_69] = uint32(4294967295);
}
}
l_mut_34 = l_mut_34 + uint32(256);
}

}