extern "C" __global__ void __launch_bounds__(256)scatter_rows (
    const float* __restrict__ buffer_0, float* buffer_1, const uint32* __restrict__ buffer_2, const uint32* __restrict__ buffer_3, const __grid_constant__ info_st info
) {
await_kernel_before();
uint3 absoluteIdx = make_uint3(
    blockIdx.x * blockDim.x + threadIdx.x,
    blockIdx.y * blockDim.y + threadIdx.y,
    blockIdx.z * blockDim.z + threadIdx.z
);
uint32 idxGlobal = (
                absoluteIdx.z * gridDim.x * blockDim.x * gridDim.y * blockDim.y)
                + (absoluteIdx.y * gridDim.x * blockDim.x)
                + absoluteIdx.x;
const bool l_0 = idxGlobal < info.scalars_uint32[0];
if (l_0) {
const uint32 l_1 = idxGlobal / uint32(3);
const uint32 l_2 = idxGlobal % uint32(3);
const uint32 l_3 = buffer_2[l_1];
const uint32 l_4 = buffer_3[l_1];
const bool l_5 = l_3 < uint32(10);
const uint32 l_6 = l_1 + uint32(4294967295);
const bool l_7 = l_6 < uint32(64);
const uint32 l_8 = (l_7) ? l_6 : l_1;
const uint32 l_9 = buffer_2[l_8];
const bool l_10 = l_9 == l_3;
const bool l_11 = l_7 && l_10;
const bool l_12 = !l_11;
const bool l_13 = l_5 && l_12;
if (l_13) {
float l_mut_17;
uint32 l_mut_18;
uint32 l_mut_19;
const uint32 l_14 = l_3 * uint32(3);
const uint32 l_15 = l_14 + l_2;
const float l_16 = buffer_1[l_15];
l_mut_17 = l_16;
l_mut_18 = l_1;
l_mut_19 = l_4;
while (true) {
const uint32 l_20 = l_mut_18;
const uint32 l_21 = l_mut_19;
const uint32 l_22 = l_20 + uint32(3);
const bool l_23 = l_22 < uint32(64);
const uint32 l_24 = (l_23) ? l_22 : l_1;
const uint32 l_25 = buffer_2[l_24];
const bool l_26 = l_25 == l_3;
const bool l_27 = l_23 && l_26;
if (l_27) {
const uint32 l_28 = l_20 + uint32(1);
const uint32 l_29 = buffer_3[l_28];
const uint32 l_30 = l_20 + uint32(2);
const uint32 l_31 = buffer_3[l_30];
const uint32 l_32 = l_20 + uint32(3);
const uint32 l_33 = buffer_3[l_32];
const uint32 l_34 = l_21 * uint32(3);
const uint32 l_35 = l_34 + l_2;
const float l_36 = buffer_0[l_35];
const float l_37 = l_36 + l_36;
const uint32 l_38 = l_29 * uint32(3);
const uint32 l_39 = l_38 + l_2;
const float l_40 = buffer_0[l_39];
const float l_41 = l_40 + l_40;
const uint32 l_42 = l_31 * uint32(3);
const uint32 l_43 = l_42 + l_2;
const float l_44 = buffer_0[l_43];
const float l_45 = l_44 + l_44;
const uint32 l_46 = l_33 * uint32(3);
const uint32 l_47 = l_46 + l_2;
const float l_48 = buffer_0[l_47];
const float l_49 = l_48 + l_48;
const float l_50 = l_mut_17;
const float l_51 = l_50 + l_37;
const float l_52 = l_51 + l_41;
const float l_53 = l_52 + l_45;
const float l_54 = l_53 + l_49;
l_mut_17 = l_54;
const uint32 l_55 = l_20 + uint32(4);
l_mut_18 = l_55;
}
const bool l_56 = !l_27;
if (l_56) {
const uint32 l_57 = l_21 * uint32(3);
const uint32 l_58 = l_57 + l_2;
const float l_59 = buffer_0[l_58];
const float l_60 = l_59 + l_59;
const float l_61 = l_mut_17;
const float l_62 = l_61 + l_60;
l_mut_17 = l_62;
const uint32 l_63 = l_20 + uint32(1);
l_mut_18 = l_63;
}
const uint32 l_64 = l_mut_18;
const bool l_65 = l_64 < uint32(64);
const uint32 l_66 = (l_65) ? l_64 : l_1;
const uint32 l_67 = buffer_2[l_66];
const bool l_68 = l_67 == l_3;
const bool l_69 = l_65 && l_68;
const bool l_70 = !l_69;
if (l_70) {
break;}
const uint32 l_71 = buffer_3[l_64];
l_mut_19 = l_71;
}
const uint32 l_72 = l_3 * uint32(3);
const uint32 l_73 = l_72 + l_2;
buffer_1[l_73] = l_mut_17;
}
}

}