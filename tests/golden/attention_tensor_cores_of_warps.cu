extern "C" __global__ void __launch_bounds__(384, 1)attention (
    const __nv_bfloat16* __restrict__ buffer_0, const __nv_bfloat16* __restrict__ buffer_1, const __nv_bfloat16* __restrict__ buffer_2, float* buffer_3, __nv_bfloat16* buffer_4, const __grid_constant__ info_st info
) {
await_kernel_before();
const TensorMap map_0 = {(const char *)buffer_0 + 0, 2, {64, 100, 3, 1, 1}, {64, 6400, 0, 0}, {64, 128}};
const TensorMap map_1 = {(const char *)buffer_1 + 0, 2, {64, 130, 3, 1, 1}, {64, 8320, 0, 0}, {64, 64}};
const TensorMap map_2 = {(const char *)buffer_2 + 0, 2, {32, 130, 3, 1, 1}, {32, 4160, 0, 0}, {64, 64}};
extern __shared__ __align__(1024) unsigned char dynamic_shared_mem[];
const unsigned int keys = (shared_address(dynamic_shared_mem) + 1023) / 1024 * 1024;
const unsigned int values = keys + 24576, queries = values + 24576;
const unsigned int queries_full = queries + 16384, queries_empty = queries_full + 8;
const unsigned int keys_full = queries_empty + 8, keys_empty = keys_full + 24;
const unsigned int values_full = keys_empty + 24, values_empty = values_full + 24;
const unsigned int group = threadIdx.x / 128;
if (threadIdx.x == 0) {
init_barrier(queries_full, 128);
init_barrier(queries_empty, 8);
for (int i = 0; i < 3; i++) {
init_barrier(keys_full + 8 * i, 128);
init_barrier(keys_empty + 8 * i, 8);
init_barrier(values_full + 8 * i, 128);
init_barrier(values_empty + 8 * i, 8);
}
}
publish_barriers();
__syncthreads();
unsigned int stage = 0, parity = 0, round = 0;
if (group == 2) {
{
for (unsigned int n = 0, item; (item = n * gridDim.x + (n % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x)) < 3; n++) {
const unsigned int section = item / 3, in_section = item % 3;
const unsigned int height = min(3 - section * 3, 3u);
const unsigned int z = section * 3 + in_section % height;
const unsigned int first_row = (0 - in_section / height) * 128;
const int last_row = min(first_row + 128, 100u) - 1;
const int lowest = first_row, highest = last_row;
const int first_tile = min(max(lowest + -999, 0) / 64, 2);
const int end_tile = max((min(max(highest + 31, 0), 130) + 63) / 64, first_tile + 1);
await_phase(queries_empty, round ^ 1);
copy_box(queries + 0, map_0, 0, first_row, z % 3, 0, 0);
arrive_after_copies(queries_full);
round ^= 1;
#pragma unroll 1
for (int tile = end_tile - 1; tile >= first_tile; tile--) {
const unsigned int to_keys = keys + stage * 8192, to_values = values + stage * 8192;
await_phase(keys_empty + 8 * stage, parity ^ 1);
copy_box(to_keys + 0, map_1, 0, tile * 64, z % 3, 0, 0);
arrive_after_copies(keys_full + 8 * stage);
await_phase(values_empty + 8 * stage, parity ^ 1);
copy_box(to_values + 0, map_2, 0, tile * 64, z % 3, 0, 0);
arrive_after_copies(values_full + 8 * stage);
if (++stage == 3) {
stage = 0;
parity ^= 1;
}
}
}
}
} else {
for (unsigned int n = 0, item; (item = n * gridDim.x + (n % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x)) < 3; n++) {
const unsigned int section = item / 3, in_section = item % 3;
const unsigned int height = min(3 - section * 3, 3u);
const unsigned int z = section * 3 + in_section % height;
const unsigned int first_row = (0 - in_section / height) * 128;
const int last_row = min(first_row + 128, 100u) - 1;
const int lowest = first_row, highest = last_row;
const int first_tile = min(max(lowest + -999, 0) / 64, 2);
const int end_tile = max((min(max(highest + 31, 0), 130) + 63) / 64, first_tile + 1);
const unsigned int in_group = threadIdx.x % 128;
const unsigned int own_row = first_row + group * 64 + in_group / 32 * 16 + in_group % 32 / 4;
const uint32 l_0 = min(own_row + 0, 99u);
const uint32 l_1 = z;
const uint32 l_2 = l_1 * uint32(100);
const uint32 l_3 = l_2 + l_0;
const int32 l_4 = int32(l_0);
const int32 l_5 = l_4 + int32(30);
const uint32 l_6 = uint32(4286578688);
const float l_7 = reinterpret_cast<float const&>(l_6);
const uint32 l_8 = min(own_row + 8, 99u);
const uint32 l_9 = z;
const uint32 l_10 = l_9 * uint32(100);
const uint32 l_11 = l_10 + l_8;
const int32 l_12 = int32(l_8);
const int32 l_13 = l_12 + int32(30);
const uint32 l_14 = uint32(4286578688);
const float l_15 = reinterpret_cast<float const&>(l_14);
const float minus_infinity = __int_as_float(0xff800000);
float largest_score[2] = {minus_infinity, minus_infinity}, total[2] = {0.0f, 0.0f}, scale[2];
unsigned int weights[16];
float result[16];
#pragma unroll
for (int i = 0; i < 16; i++) result[i] = 0.0f;
const auto complete = [&](float (&scores)[32], const int tile) {
if (highest + -999 > tile * 64 || (tile + 1) * 64 > lowest + 31 || (tile + 1) * 64 > 130) {
#pragma unroll
for (int j = 0; j < 8; j++) {
const unsigned int column = tile * 64 + 8 * j + threadIdx.x % 4 * 2;
if (column + 0 >= 130) scores[4 * j + 0] = scores[4 * j + 1] = minus_infinity; else {
const uint32 l_16 = column + 0;
const uint32 l_17 = l_3 * uint32(130);
const uint32 l_18 = l_17 + l_16;
const uint32 l_19 = l_18 + uint32(1);
const uint32 l_20 = l_16 + uint32(1);
const float l_21 = scores[4 * j + 0];
const float l_22 = scores[4 * j + 1];
const int32 l_23 = int32(l_16);
const int32 l_24 = int32(l_20);
const bool l_25 = l_23 <= l_5;
const bool l_26 = l_24 <= l_5;
const int32 l_27 = l_4 - l_23;
const int32 l_28 = l_4 - l_24;
const bool l_29 = l_27 < int32(1000);
const bool l_30 = l_28 < int32(1000);
const bool l_31 = l_25 && l_29;
const bool l_32 = l_26 && l_30;
const float l_33 = (l_31) ? l_21 : l_7;
const float l_34 = (l_32) ? l_22 : l_7;
scores[4 * j + 0] = l_33;
scores[4 * j + 1] = l_34;
}
if (column + 0 >= 130) scores[4 * j + 2] = scores[4 * j + 3] = minus_infinity; else {
const uint32 l_35 = column + 0;
const uint32 l_36 = l_11 * uint32(130);
const uint32 l_37 = l_36 + l_35;
const uint32 l_38 = l_37 + uint32(1);
const uint32 l_39 = l_35 + uint32(1);
const float l_40 = scores[4 * j + 2];
const float l_41 = scores[4 * j + 3];
const int32 l_42 = int32(l_35);
const int32 l_43 = int32(l_39);
const bool l_44 = l_42 <= l_13;
const bool l_45 = l_43 <= l_13;
const int32 l_46 = l_12 - l_42;
const int32 l_47 = l_12 - l_43;
const bool l_48 = l_46 < int32(1000);
const bool l_49 = l_47 < int32(1000);
const bool l_50 = l_44 && l_48;
const bool l_51 = l_45 && l_49;
const float l_52 = (l_50) ? l_40 : l_15;
const float l_53 = (l_51) ? l_41 : l_15;
scores[4 * j + 2] = l_52;
scores[4 * j + 3] = l_53;
}
}
} else {
}
};
const auto weigh = [&](float (&scores)[32]) {
#pragma unroll
for (int half = 0; half < 2; half++) {
float most = largest_score[half];
#pragma unroll
for (int j = 0; j < 8; j++)
most = largest(most, largest(scores[4 * j + 2 * half], scores[4 * j + 2 * half + 1]));
most = largest(most, __shfl_xor_sync(~0u, most, 1));
most = largest(most, __shfl_xor_sync(~0u, most, 2));
const float reference = most == minus_infinity ? 0.0f : most * 0.18033688f;
scale[half] = rough_exp2(fma(largest_score[half], 0.18033688f, -reference));
largest_score[half] = most;
float sum = total[half] * scale[half];
#pragma unroll
for (int j = 0; j < 8; j++)
#pragma unroll
for (int i = 4 * j + 2 * half; i < 4 * j + 2 * half + 2; i++) sum += scores[i] = rough_exp2(fma(scores[i], 0.18033688f, -reference));
total[half] = sum;
}
};
await_phase(queries_full, round);
round ^= 1;
unsigned int held[16];
#pragma unroll
for (int k = 0; k < 4; k++) load_left(held + 4 * k, matrix<1024, 16>(queries + group * 8192 + k / 4 * 16384 + k % 4 * 32));
__syncwarp();
if (threadIdx.x % 32 == 0) arrive(queries_empty);
unsigned int before;
{
float scores[32];
await_phase(keys_full + 8 * stage, parity);
begin_products();
#pragma unroll
for (int k = 0; k < 4; k++)
product_bf16_64_rk(scores, held + 4 * k, matrix<1024, 16>(keys + stage * 8192 + k / 4 * 8192 + k % 4 * 32), k);
end_products();
await_products<0>();
hold(scores);
__syncwarp();
if (threadIdx.x % 32 == 0) arrive(keys_empty + 8 * stage);
complete(scores, end_tile - 1);
weigh(scores);
#pragma unroll
for (int i = 0; i < 16; i++) weights[i] = pack_bf16(scores[2 * i], scores[2 * i + 1]);
before = stage;
if (++stage == 3) {
stage = 0;
parity ^= 1;
}
}
#pragma unroll 1
for (int tile = end_tile - 2; tile >= first_tile; tile--) {
float scores[32];
await_phase(keys_full + 8 * stage, parity);
begin_products();
#pragma unroll
for (int k = 0; k < 4; k++)
product_bf16_64_rk(scores, held + 4 * k, matrix<1024, 16>(keys + stage * 8192 + k / 4 * 8192 + k % 4 * 32), k);
end_products();
await_phase(values_full + 8 * before, stage ? parity : parity ^ 1);
begin_products();
#pragma unroll
for (int k = 0; k < 4; k++)
product_bf16_32_rm(result, weights + 4 * k, matrix<1024, 8192>(values + before * 8192 + k * 2048), 1);
end_products();
await_products<1>();
hold(scores);
__syncwarp();
if (threadIdx.x % 32 == 0) arrive(keys_empty + 8 * stage);
complete(scores, tile);
weigh(scores);
await_products<0>();
hold(result);
__syncwarp();
if (threadIdx.x % 32 == 0) arrive(values_empty + 8 * before);
#pragma unroll
for (int i = 0; i < 16; i++) result[i] *= scale[i / 2 % 2];
#pragma unroll
for (int i = 0; i < 16; i++) weights[i] = pack_bf16(scores[2 * i], scores[2 * i + 1]);
before = stage;
if (++stage == 3) {
stage = 0;
parity ^= 1;
}
}
await_phase(values_full + 8 * before, stage ? parity : parity ^ 1);
begin_products();
#pragma unroll
for (int k = 0; k < 4; k++)
product_bf16_32_rm(result, weights + 4 * k, matrix<1024, 8192>(values + before * 8192 + k * 2048), 1);
end_products();
await_products<0>();
hold(result);
__syncwarp();
if (threadIdx.x % 32 == 0) arrive(values_empty + 8 * before);
float factor[2];
#pragma unroll
for (int half = 0; half < 2; half++) {
total[half] += __shfl_xor_sync(~0u, total[half], 1);
total[half] += __shfl_xor_sync(~0u, total[half], 2);
}
const float l_54 = largest_score[0] * 0.125f;
const float l_55 = total[0];
const bool l_56 = l_54 == l_7;
const float l_57 = (l_56) ? float(0.0) : l_54;
const bool l_58 = l_55 == float(0.0);
const float l_59 = (l_58) ? float(1.0) : l_55;
const float l_60 = abs(l_59);
const bool l_61 = l_60 < float(7.888609052210118e-31);
const bool l_62 = float(1.2676506002282294e30) < l_60;
const float l_63 = (l_62) ? float(5.421010862427522e-20) : float(1.0);
const float l_64 = (l_61) ? float(1.8446744073709552e19) : l_63;
const float l_65 = l_59 * l_64;
const float l_66 = float(1.0) / l_65;
const float l_67 = float(1.0) * l_66;
const float l_68 = l_67 * l_64;
const float l_69 = log(l_55);
const float l_70 = l_69 + l_57;
factor[0] = l_68;
if (threadIdx.x % 4 == 0 && own_row + 0 < 100) {
buffer_3[l_3] = l_70;
}
const float l_71 = largest_score[1] * 0.125f;
const float l_72 = total[1];
const bool l_73 = l_71 == l_15;
const float l_74 = (l_73) ? float(0.0) : l_71;
const bool l_75 = l_72 == float(0.0);
const float l_76 = (l_75) ? float(1.0) : l_72;
const float l_77 = abs(l_76);
const bool l_78 = l_77 < float(7.888609052210118e-31);
const bool l_79 = float(1.2676506002282294e30) < l_77;
const float l_80 = (l_79) ? float(5.421010862427522e-20) : float(1.0);
const float l_81 = (l_78) ? float(1.8446744073709552e19) : l_80;
const float l_82 = l_76 * l_81;
const float l_83 = float(1.0) / l_82;
const float l_84 = float(1.0) * l_83;
const float l_85 = l_84 * l_81;
const float l_86 = log(l_72);
const float l_87 = l_86 + l_74;
factor[1] = l_85;
if (threadIdx.x % 4 == 0 && own_row + 8 < 100) {
buffer_3[l_11] = l_87;
}
#pragma unroll
for (int j = 0; j < 1; j++)
#pragma unroll
for (int half = 0; half < 2; half++) {
const unsigned int row = own_row + 8 * half, column = 32 * j + threadIdx.x % 4 * 8;
float part[8];
#pragma unroll
for (int e = 0; e < 8; e++) part[e] = result[16 * j + e / 2 * 4 + half * 2 + e % 2] * factor[half];
gather_columns(part);
if (row < 100) {
const uint32 l_88 = z * 100 + row;
const uint32 l_89 = column;
const uint32 l_90 = l_88 * uint32(32);
const uint32 l_91 = l_90 + l_89;
const uint32 l_92 = l_91 + uint32(1);
const uint32 l_93 = l_91 + uint32(2);
const uint32 l_94 = l_91 + uint32(3);
const uint32 l_95 = l_91 + uint32(4);
const uint32 l_96 = l_91 + uint32(5);
const uint32 l_97 = l_91 + uint32(6);
const uint32 l_98 = l_91 + uint32(7);
const float l_99 = part[0];
const float l_100 = part[1];
const float l_101 = part[2];
const float l_102 = part[3];
const float l_103 = part[4];
const float l_104 = part[5];
const float l_105 = part[6];
const float l_106 = part[7];
const __nv_bfloat16 l_107 = __nv_bfloat16(l_99);
const __nv_bfloat16 l_108 = __nv_bfloat16(l_100);
const __nv_bfloat16 l_109 = __nv_bfloat16(l_101);
const __nv_bfloat16 l_110 = __nv_bfloat16(l_102);
const __nv_bfloat16 l_111 = __nv_bfloat16(l_103);
const __nv_bfloat16 l_112 = __nv_bfloat16(l_104);
const __nv_bfloat16 l_113 = __nv_bfloat16(l_105);
const __nv_bfloat16 l_114 = __nv_bfloat16(l_106);
const uint32 l_115 = l_91 / uint32(8);
const __nv_bfloat16_8 l_116 = __nv_bfloat16_8{l_107,l_108,l_109,l_110,l_111,l_112,l_113,l_114};
 __nv_bfloat16_8 *_tmp_0 = reinterpret_cast< __nv_bfloat16_8*>(buffer_4);
_tmp_0[l_115] = reinterpret_cast< __nv_bfloat16_8 const&>(l_116);
}
}
}
}

}