extern "C" __global__ void __launch_bounds__(32)row (
    float* buffer_0, float* buffer_1, const __grid_constant__ info_st info
) {
await_kernel_before();
uint32 blockIdxGlobal = (blockIdx.z * gridDim.y * gridDim.x) + (blockIdx.y * gridDim.x) + blockIdx.x;
const uint32 l_0 = blockIdxGlobal * uint32(32);
const uint32 l_1 = l_0 + threadIdx.x;
const bool l_2 = l_1 < info.scalars_uint32[0];
const uint32 l_3 = info.scalars_uint32[0] - uint32(1);
const uint32 l_4 = (l_2) ? l_1 : l_3;
const uint32 l_5 = l_4 * uint32(4);
const uint32 l_6 = l_5 + uint32(1);
const uint32 l_7 = l_5 + uint32(2);
const uint32 l_8 = l_5 + uint32(3);
 float_4 *_tmp_0 = reinterpret_cast< float_4*>(buffer_0);
const float_4 l_9 = _tmp_0[l_4];
const float l_10 = l_9.i_0;
const float l_11 = l_9.i_1;
const float l_12 = l_9.i_2;
const float l_13 = l_9.i_3;
const uint32 l_14 = uint32(4286578688);
const float l_15 = reinterpret_cast<float const&>(l_14);
const float l_16 = largest(l_10, l_11);
const float l_17 = largest(l_16, l_12);
const float l_18 = largest(l_17, l_13);
const float l_19 = l_10 - l_18;
const float l_20 = l_11 - l_18;
const float l_21 = l_12 - l_18;
const float l_22 = l_13 - l_18;
const float l_23 = exp(l_19);
const float l_24 = exp(l_20);
const float l_25 = exp(l_21);
const float l_26 = exp(l_22);
const float l_27 = l_23 + l_24;
const float l_28 = l_27 + l_25;
const float l_29 = l_28 + l_26;
const float l_30 = abs(l_29);
const bool l_31 = l_30 < float(7.888609052210118e-31);
const bool l_32 = float(1.2676506002282294e30) < l_30;
const float l_33 = (l_32) ? float(5.421010862427522e-20) : float(1.0);
const float l_34 = (l_31) ? float(1.8446744073709552e19) : l_33;
const float l_35 = l_29 * l_34;
const float l_36 = float(1.0) / l_35;
const float l_37 = l_23 * l_36;
const float l_38 = l_37 * l_34;
const float l_39 = abs(l_29);
const bool l_40 = l_39 < float(7.888609052210118e-31);
const bool l_41 = float(1.2676506002282294e30) < l_39;
const float l_42 = (l_41) ? float(5.421010862427522e-20) : float(1.0);
const float l_43 = (l_40) ? float(1.8446744073709552e19) : l_42;
const float l_44 = l_29 * l_43;
const float l_45 = float(1.0) / l_44;
const float l_46 = l_24 * l_45;
const float l_47 = l_46 * l_43;
const float l_48 = abs(l_29);
const bool l_49 = l_48 < float(7.888609052210118e-31);
const bool l_50 = float(1.2676506002282294e30) < l_48;
const float l_51 = (l_50) ? float(5.421010862427522e-20) : float(1.0);
const float l_52 = (l_49) ? float(1.8446744073709552e19) : l_51;
const float l_53 = l_29 * l_52;
const float l_54 = float(1.0) / l_53;
const float l_55 = l_25 * l_54;
const float l_56 = l_55 * l_52;
const float l_57 = abs(l_29);
const bool l_58 = l_57 < float(7.888609052210118e-31);
const bool l_59 = float(1.2676506002282294e30) < l_57;
const float l_60 = (l_59) ? float(5.421010862427522e-20) : float(1.0);
const float l_61 = (l_58) ? float(1.8446744073709552e19) : l_60;
const float l_62 = l_29 * l_61;
const float l_63 = float(1.0) / l_62;
const float l_64 = l_26 * l_63;
const float l_65 = l_64 * l_61;
if (l_2) {
const float_4 l_66 = float_4{l_38,l_47,l_56,l_65};
 float_4 *_tmp_1 = reinterpret_cast< float_4*>(buffer_1);
_tmp_1[l_4] = reinterpret_cast< float_4 const&>(l_66);
}

}
