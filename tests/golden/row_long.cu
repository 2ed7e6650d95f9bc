extern "C" __global__ void __launch_bounds__(1024)row (
    __nv_bfloat16* buffer_0, __nv_bfloat16* buffer_1, const __grid_constant__ info_st info
) {
await_kernel_before();
uint32 blockIdxGlobal = (blockIdx.z * gridDim.y * gridDim.x) + (blockIdx.y * gridDim.x) + blockIdx.x;
uint32 warpSizeChecked = min(warpSize, blockDim.x * blockDim.y * blockDim.z);
extern __shared__ __align__(4) uint8 dynamic_shared_mem[];
// Shared array size: 32, 128 bytes
uint32 *shared_memory_0 = reinterpret_cast<uint32*>(&dynamic_shared_mem[0]);
float l_mut_4;
float l_mut_38;
const uint32 l_1 = blockIdxGlobal * uint32(40001);
const uint32 l_2 = uint32(4286578688);
const float l_3 = reinterpret_cast<float const&>(l_2);
l_mut_4 = l_3;

for (uint32 l_mut_5 = threadIdx.x; l_mut_5 < uint32(40001); l_mut_5 += uint32(1024)) {
const uint32 l_6 = l_1 + l_mut_5;
const __nv_bfloat16 l_7 = buffer_0[l_6];
const float l_8 = float(l_7);
const float l_9 = largest(l_mut_4, l_8);
l_mut_4 = l_9;
}
const float l_10 = l_mut_4;
const float l_11 = { __shfl_xor_sync(-1, l_10, uint32(16)) };
const float l_12 = largest(l_10, l_11);
const float l_13 = { __shfl_xor_sync(-1, l_12, uint32(8)) };
const float l_14 = largest(l_12, l_13);
const float l_15 = { __shfl_xor_sync(-1, l_14, uint32(4)) };
const float l_16 = largest(l_14, l_15);
const float l_17 = { __shfl_xor_sync(-1, l_16, uint32(2)) };
const float l_18 = largest(l_16, l_17);
const float l_19 = { __shfl_xor_sync(-1, l_18, uint32(1)) };
const float l_20 = largest(l_18, l_19);
const uint32 l_21 = threadIdx.x / uint32(32);
const uint32 l_22 = threadIdx.x % uint32(32);
const bool l_23 = l_22 == uint32(0);
if (l_23) {
const uint32 l_24 = reinterpret_cast<uint32 const&>(l_20);
shared_memory_0[l_21] = l_24;
}
__syncthreads();

const uint32 l_25 = l_22 % uint32(32);
const uint32 l_26 = shared_memory_0[l_25];
const float l_27 = reinterpret_cast<float const&>(l_26);
__syncthreads();

const float l_28 = { __shfl_xor_sync(-1, l_27, uint32(16)) };
const float l_29 = largest(l_27, l_28);
const float l_30 = { __shfl_xor_sync(-1, l_29, uint32(8)) };
const float l_31 = largest(l_29, l_30);
const float l_32 = { __shfl_xor_sync(-1, l_31, uint32(4)) };
const float l_33 = largest(l_31, l_32);
const float l_34 = { __shfl_xor_sync(-1, l_33, uint32(2)) };
const float l_35 = largest(l_33, l_34);
const float l_36 = { __shfl_xor_sync(-1, l_35, uint32(1)) };
const float l_37 = largest(l_35, l_36);
l_mut_38 = float(0.0);

for (uint32 l_mut_39 = threadIdx.x; l_mut_39 < uint32(40001); l_mut_39 += uint32(1024)) {
const uint32 l_40 = l_1 + l_mut_39;
const __nv_bfloat16 l_41 = buffer_0[l_40];
const float l_42 = float(l_41);
const float l_43 = l_42 - l_37;
const float l_44 = exp(l_43);
const float l_45 = l_mut_38 + l_44;
l_mut_38 = l_45;
}
const float l_46 = l_mut_38;
const float l_47 = { __shfl_xor_sync(-1, l_46, uint32(16)) };
const float l_48 = l_46 + l_47;
const float l_49 = { __shfl_xor_sync(-1, l_48, uint32(8)) };
const float l_50 = l_48 + l_49;
const float l_51 = { __shfl_xor_sync(-1, l_50, uint32(4)) };
const float l_52 = l_50 + l_51;
const float l_53 = { __shfl_xor_sync(-1, l_52, uint32(2)) };
const float l_54 = l_52 + l_53;
const float l_55 = { __shfl_xor_sync(-1, l_54, uint32(1)) };
const float l_56 = l_54 + l_55;
const uint32 l_57 = threadIdx.x / uint32(32);
const uint32 l_58 = threadIdx.x % uint32(32);
const bool l_59 = l_58 == uint32(0);
if (l_59) {
const uint32 l_60 = reinterpret_cast<uint32 const&>(l_56);
shared_memory_0[l_57] = l_60;
}
__syncthreads();

const uint32 l_61 = l_58 % uint32(32);
const uint32 l_62 = shared_memory_0[l_61];
const float l_63 = reinterpret_cast<float const&>(l_62);
__syncthreads();

const float l_64 = { __shfl_xor_sync(-1, l_63, uint32(16)) };
const float l_65 = l_63 + l_64;
const float l_66 = { __shfl_xor_sync(-1, l_65, uint32(8)) };
const float l_67 = l_65 + l_66;
const float l_68 = { __shfl_xor_sync(-1, l_67, uint32(4)) };
const float l_69 = l_67 + l_68;
const float l_70 = { __shfl_xor_sync(-1, l_69, uint32(2)) };
const float l_71 = l_69 + l_70;
const float l_72 = { __shfl_xor_sync(-1, l_71, uint32(1)) };
const float l_73 = l_71 + l_72;

for (uint32 l_mut_74 = threadIdx.x; l_mut_74 < uint32(40001); l_mut_74 += uint32(1024)) {
const uint32 l_75 = l_1 + l_mut_74;
const __nv_bfloat16 l_76 = buffer_0[l_75];
const float l_77 = float(l_76);
const float l_78 = l_77 - l_37;
const float l_79 = exp(l_78);
const float l_80 = abs(l_73);
const bool l_81 = l_80 < float(7.888609052210118e-31);
const bool l_82 = float(1.2676506002282294e30) < l_80;
const float l_83 = (l_82) ? float(5.421010862427522e-20) : float(1.0);
const float l_84 = (l_81) ? float(1.8446744073709552e19) : l_83;
const float l_85 = l_73 * l_84;
const float l_86 = float(1.0) / l_85;
const float l_87 = l_79 * l_86;
const float l_88 = l_87 * l_84;
const __nv_bfloat16 l_89 = __nv_bfloat16(l_88);
buffer_1[l_75] = l_89;
}

}
