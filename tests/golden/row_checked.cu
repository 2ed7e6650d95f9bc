extern "C" __global__ void __launch_bounds__(32)row (
    float* buffer_0, const uint8* __restrict__ buffer_1, float* buffer_2, int32* buffer_3, float* buffer_4, uint32* buffer_5, const __grid_constant__ info_st info
) {
await_kernel_before();
uint32 blockIdxGlobal = (blockIdx.z * gridDim.y * gridDim.x) + (blockIdx.y * gridDim.x) + blockIdx.x;
uint32 l_mut_68;
const uint32 l_0 = blockIdxGlobal * uint32(32);
const uint32 l_1 = l_0 + threadIdx.x;
const bool l_2 = l_1 < info.scalars_uint32[0];
const uint32 l_3 = info.scalars_uint32[0] - uint32(1);
const uint32 l_4 = (l_2) ? l_1 : l_3;
const uint32 l_5 = l_4 * uint32(2);
const uint32 l_6 = l_5 + uint32(1);
const uint8 l_7 = buffer_1[l_4];
const int32 l_8 = int32(l_7);
const bool l_9 = l_8 >= int32(2);
const bool l_10 = l_8 < int32(0);
const bool l_11 = l_10 || l_9;
if (l_11) {
uint32* l_12 = &buffer_5[uint32(1)];
const uint32 l_13 = atomicAdd(l_12, uint32(0));
const bool l_14 = l_13 == uint32(0);
if (l_14) {
uint32* l_15 = &buffer_5[uint32(0)];
const uint32 l_16 = atomicExch(l_15, uint32(1));
uint32* l_17 = &buffer_5[uint32(2)];
const uint32 l_18 = atomicMax(l_17, uint32(4294967254));
const bool l_19 = uint32(4294967254) >= l_18;
if (l_19) {
const bool l_20 = l_4 < uint32(4294967294);
const uint32 l_21 = (l_20) ? l_4 : uint32(4294967294);
const uint32 l_22 = ~l_21;
uint32* l_23 = &buffer_5[uint32(1325)];
const uint32 l_24 = atomicMax(l_23, l_22);
const bool l_25 = l_24 < l_22;
if (l_25) {
uint32* l_26 = &buffer_5[uint32(3)];
const uint32 l_27 = atomicAdd(l_26, uint32(1));
const uint32 l_28 = l_27 % uint32(256);
const uint32 l_29 = l_28 * uint32(5);
const uint32 l_30 = uint32(l_8);
const bool l_31 = l_8 < int32(0);
const uint32 l_32 = (l_31) ? uint32(4294967295) : uint32(0);
const uint32 l_33 = l_29 + uint32(4);
uint32* l_34 = &buffer_5[l_33];
const uint32 l_35 = atomicExch(l_34, uint32(41));
const uint32 l_36 = l_29 + uint32(5);
uint32* l_37 = &buffer_5[l_36];
const uint32 l_38 = atomicExch(l_37, l_30);
const uint32 l_39 = l_29 + uint32(6);
uint32* l_40 = &buffer_5[l_39];
const uint32 l_41 = atomicExch(l_40, l_32);
const uint32 l_42 = l_29 + uint32(7);
uint32* l_43 = &buffer_5[l_42];
const uint32 l_44 = atomicExch(l_43, l_4);
const uint32 l_45 = l_29 + uint32(8);
uint32* l_46 = &buffer_5[l_45];
const uint32 l_47 = atomicExch(l_46, uint32(0));
}
}
}
}
const int32 l_48 = (l_11) ? int32(0) : l_8;
const uint32 l_49 = l_4 * uint32(2);
const uint32 l_50 = uint32(l_48);
const uint32 l_51 = l_49 + l_50;
const float l_52 = buffer_0[l_51];
 float_2 *_tmp_0 = reinterpret_cast< float_2*>(buffer_0);
const float_2 l_53 = _tmp_0[l_4];
const float l_54 = l_53.i_0;
const float l_55 = l_53.i_1;
const int32 l_56 = int32(uint32(0));
const int32 l_57 = int32(uint32(1));
const bool l_58 = l_56 == l_48;
const bool l_59 = l_57 == l_48;
const float l_60 = float(l_58);
const float l_61 = float(l_59);
const uint32 l_62 = uint32(4286578688);
const float l_63 = reinterpret_cast<float const&>(l_62);
const float l_64 = largest(l_54, l_55);
const uint32 l_65 = uint32(4286578688);
const float l_66 = reinterpret_cast<float const&>(l_65);
const float l_67 = largest(l_54, l_55);
l_mut_68 = uint32(2147483647);
const bool l_69 = l_67 == l_67;
const bool l_70 = l_67 != l_67;
const bool l_71 = l_67 != l_67;
const bool l_72 = l_70 && l_71;
const bool l_73 = l_69 || l_72;
if (l_73) {
const uint32 l_74 = l_mut_68;
const bool l_75 = l_55 == l_67;
const bool l_76 = l_55 != l_55;
const bool l_77 = l_67 != l_67;
const bool l_78 = l_76 && l_77;
const bool l_79 = l_75 || l_78;
const uint32 l_80 = (l_79) ? uint32(1) : l_74;
const bool l_81 = l_54 == l_67;
const bool l_82 = l_54 != l_54;
const bool l_83 = l_67 != l_67;
const bool l_84 = l_82 && l_83;
const bool l_85 = l_81 || l_84;
const uint32 l_86 = (l_85) ? uint32(0) : l_80;
l_mut_68 = l_86;
}
const uint32 l_87 = l_mut_68;
const int32 l_88 = int32(l_87);
const float l_89 = l_54 - l_64;
const float l_90 = l_55 - l_64;
const float l_91 = exp(l_89);
const float l_92 = exp(l_90);
const float l_93 = l_91 + l_92;
const float l_94 = log(l_93);
const float l_95 = l_94 + l_64;
const float l_96 = l_95 - l_52;
const float l_97 = abs(l_93);
const bool l_98 = l_97 < float(7.888609052210118e-31);
const bool l_99 = float(1.2676506002282294e30) < l_97;
const float l_100 = (l_99) ? float(5.421010862427522e-20) : float(1.0);
const float l_101 = (l_98) ? float(1.8446744073709552e19) : l_100;
const float l_102 = l_93 * l_101;
const float l_103 = float(1.0) / l_102;
const float l_104 = l_91 * l_103;
const float l_105 = l_104 * l_101;
const float l_106 = abs(l_93);
const bool l_107 = l_106 < float(7.888609052210118e-31);
const bool l_108 = float(1.2676506002282294e30) < l_106;
const float l_109 = (l_108) ? float(5.421010862427522e-20) : float(1.0);
const float l_110 = (l_107) ? float(1.8446744073709552e19) : l_109;
const float l_111 = l_93 * l_110;
const float l_112 = float(1.0) / l_111;
const float l_113 = l_92 * l_112;
const float l_114 = l_113 * l_110;
const float l_115 = l_105 - l_60;
const float l_116 = l_114 - l_61;
if (l_2) {
const float_2 l_117 = float_2{l_115,l_116};
 float_2 *_tmp_1 = reinterpret_cast< float_2*>(buffer_4);
_tmp_1[l_4] = reinterpret_cast< float_2 const&>(l_117);
}
if (l_2) {
buffer_2[l_4] = l_96;
buffer_3[l_4] = l_88;
}

}
