extern "C" __global__ void __launch_bounds__(384, 1)fold (const __grid_constant__ TensorMap map_0, const __grid_constant__ TensorMap map_1, 
    const float* __restrict__ buffer_0, const float* __restrict__ buffer_1, const float* __restrict__ buffer_2, int32* buffer_3, uint32* buffer_4, const __grid_constant__ info_st info
) {
await_kernel_before();
uint32 warpSizeChecked = min(warpSize, blockDim.x * blockDim.y * blockDim.z);
float l_mut_14;
uint32 l_mut_16;
extern __shared__ __align__(1024) unsigned char dynamic_shared_mem[];
const unsigned int ring = (shared_address(dynamic_shared_mem) + 1023) / 1024 * 1024;
const unsigned int full = ring + 163840, empty = full + 64;
const unsigned int rows_full = full + 128, rows_empty = full + 136;
const unsigned int group = threadIdx.x / 128;
if (threadIdx.x == 0) {
for (int i = 0; i < 8; i++) {
init_barrier(full + 8 * i, 1);
init_barrier(empty + 8 * i, 2);
}
for (int i = 0; i < 1; i++) {
init_barrier(rows_full + 8 * i, 1);
init_barrier(rows_empty + 8 * i, 2);
}
}
publish_barriers();
__syncthreads();
unsigned int stage = 0, parity = 0;
unsigned int kept = 0, turn = 0;
if (group == 2) {
give_registers<24>();
if (threadIdx.x == 256) {
for (unsigned int unit = blockIdx.x; unit < 24; unit += gridDim.x) {
const unsigned int piece = unit / 3, z = unit % 3 / 3;
const unsigned int first_row = unit % 3 * 128;
const unsigned int first_tile = piece * 1, end_tile = min(first_tile + 1, 8u);
await_phase(rows_empty + 8 * kept, turn ^ 1);
expect_bytes(rows_full + 8 * kept, 32768);
for (unsigned int step = 0; step < 2; step++) {
const unsigned int at = ring + 131072 + kept * 32768 + step * 16384, barrier = rows_full + 8 * kept;
fetch_box(at + 0, &map_0, step * 32, first_row, 0, barrier);
}
if (++kept == 1) {
kept = 0;
turn ^= 1;
}
for (unsigned int tile = first_tile; tile < end_tile; tile++) {
const unsigned int first_column = tile * 128;
for (unsigned int step = 0; step < 2; step++) {
const unsigned int at = ring + stage * 16384, barrier = full + 8 * stage;
await_phase(empty + 8 * stage, parity ^ 1);
expect_bytes(barrier, 16384);
fetch_box(at + 0, &map_1, step * 32, first_column, 0, barrier);
if (++stage == 8) {
stage = 0;
parity ^= 1;
}
}
}
}
}
} else {
take_registers<240>();
const unsigned int in_group = threadIdx.x % 128;
const unsigned int own_row = group * 64 + in_group / 32 * 16 + in_group % 32 / 4;
for (unsigned int unit = blockIdx.x; unit < 24; unit += gridDim.x) {
const unsigned int piece = unit / 3, z = unit % 3 / 3;
const unsigned int first_row = unit % 3 * 128;
const unsigned int first_tile = piece * 1, end_tile = min(first_tile + 1, 8u);
await_phase(rows_full + 8 * kept, turn);
const uint32 l_0 = uint32(2139095040);
const float l_1 = reinterpret_cast<float const&>(l_0);
float state_0[1][2];
unsigned int state_1[1][2];
#pragma unroll
for (int i = 0; i < 1; i++)
#pragma unroll
for (int half = 0; half < 2; half++) {
state_0[i][half] = l_1;
state_1[i][half] = first_tile * 128 + threadIdx.x % 4 * 2;
}
for (unsigned int tile = first_tile; tile < end_tile; tile++) {
const unsigned int first_column = tile * 128;
float sums[1][64];
for (unsigned int step = 0; step < 2; step++) {
const unsigned int at = ring + stage * 16384;
await_phase(full + 8 * stage, parity);
begin_products();
#pragma unroll
for (int k = 0; k < 4; k++) {
#pragma unroll
for (int i = 0; i < 1; i++)
product_f32_128_kk(sums[i], matrix<1024, 16>(ring + 131072 + kept * 32768 + step * 16384 + (group * 1 + i) * 8192 + k * 32), matrix<1024, 16>(at + k * 32), step | k);
}
end_products();
await_products<1>();
if (step > 0 && threadIdx.x % 128 == 0) arrive(empty + 8 * ((stage + 7) % 8));
if (++stage == 8) {
stage = 0;
parity ^= 1;
}
}
await_products<0>();
#pragma unroll
for (int i = 0; i < 1; i++) hold(sums[i]);
if (threadIdx.x % 128 == 0) arrive(empty + 8 * ((stage + 7) % 8));
#pragma unroll
for (int i = 0; i < 1; i++)
#pragma unroll
for (int j = 0; j < 16; j++)
#pragma unroll
for (int half = 0; half < 2; half++) {
const unsigned int row = first_row + own_row + 64 * i + 8 * half;
const unsigned int column = first_column + 8 * j + threadIdx.x % 4 * 2;
const uint32 l_2 = z * 384 + row;
const uint32 l_3 = min(column + 0, 998u);
const uint32 l_4 = l_3 + uint32(1);
const float l_5 = sums[i][4 * j + 2 * half + 0];
const float l_6 = sums[i][4 * j + 2 * half + 1];
const uint32 l_7 = l_3 / uint32(2);
 const float_2 *_tmp_0 = reinterpret_cast< const float_2*>(buffer_2);
const float_2 l_8 = _tmp_0[l_7];
const float l_9 = l_8.i_0;
const float l_10 = l_8.i_1;
const float l_11 = l_5 - l_9;
const float l_12 = l_6 - l_10;
sums[i][4 * j + 2 * half + 0] = l_11;
sums[i][4 * j + 2 * half + 1] = l_12;
}
if (first_column + 128 > 1000) {
#pragma unroll
for (int i = 0; i < 1; i++)
#pragma unroll
for (int j = 0; j < 16; j++)
#pragma unroll
for (int half = 0; half < 2; half++) {
const unsigned int row = first_row + own_row + 64 * i + 8 * half;
const unsigned int column = first_column + 8 * j + threadIdx.x % 4 * 2;
#pragma unroll
for (int e = 0; e < 2; e++)
if (column + e >= 1000) sums[i][4 * j + 2 * half + e] = l_1;
}
}
float now[1][2];
unsigned int at[1][2];
bool has_nan[1][2];
#pragma unroll
for (int i = 0; i < 1; i++)
#pragma unroll
for (int half = 0; half < 2; half++) {
now[i][half] = state_0[i][half];
at[i][half] = ~0u;
has_nan[i][half] = false;
}
#pragma unroll
for (int j = 0; j < 16; j++)
#pragma unroll
for (int i = 0; i < 1; i++)
#pragma unroll
for (int half = 0; half < 2; half++) {
const float x = sums[i][4 * j + 2 * half], y = sums[i][4 * j + 2 * half + 1];
if (x < now[i][half]) {
now[i][half] = x;
at[i][half] = 8 * j;
}
if (y < now[i][half]) {
now[i][half] = y;
at[i][half] = 8 * j + 1;
}
has_nan[i][half] |= !(x <= y) && !(x > y);
}
#pragma unroll
for (int i = 0; i < 1; i++)
#pragma unroll
for (int half = 0; half < 2; half++) {
if (has_nan[i][half]) {
now[i][half] = state_0[i][half];
at[i][half] = ~0u;
#pragma unroll
for (int e = 31; e >= 0; e--) {
const float x = sums[i][e / 2 * 4 + 2 * half + e % 2];
if (x != x && state_0[i][half] == state_0[i][half]) {
now[i][half] = x;
at[i][half] = e / 2 * 8 + e % 2;
}
}
}
if (at[i][half] != ~0u) {
state_0[i][half] = now[i][half];
state_1[i][half] = first_column + threadIdx.x % 4 * 2 + at[i][half];
}
}
}
if (threadIdx.x % 128 == 0) arrive(rows_empty + 8 * kept);
if (++kept == 1) {
kept = 0;
turn ^= 1;
}
#pragma unroll
for (int i = 0; i < 1; i++)
#pragma unroll
for (int half = 0; half < 2; half++) {
const unsigned int row = first_row + own_row + 64 * i + 8 * half;
const float l_13 = state_0[i][half];
l_mut_14 = l_13;
const uint32 l_15 = state_1[i][half];
l_mut_16 = l_15;
const float l_17 = l_mut_14;
const float l_18 = { __shfl_xor_sync(-1, l_17, uint32(1)) };
const uint32 l_19 = l_mut_16;
const uint32 l_20 = { __shfl_xor_sync(-1, l_19, uint32(1)) };
const float l_21 = l_mut_14;
const uint32 l_22 = l_mut_16;
const bool l_23 = l_20 < l_22;
const bool l_24 = l_18 == l_21;
const bool l_25 = l_18 < l_21;
const bool l_26 = l_24 && l_23;
const bool l_27 = l_25 || l_26;
const bool l_28 = l_18 != l_18;
const bool l_29 = l_21 != l_21;
const bool l_30 = l_28 || l_27;
const bool l_31 = l_28 && l_23;
const bool l_32 = (l_29) ? l_31 : l_30;
const float l_33 = (l_32) ? l_18 : l_21;
l_mut_14 = l_33;
const uint32 l_34 = (l_32) ? l_20 : l_22;
l_mut_16 = l_34;
const float l_35 = l_mut_14;
const float l_36 = { __shfl_xor_sync(-1, l_35, uint32(2)) };
const uint32 l_37 = l_mut_16;
const uint32 l_38 = { __shfl_xor_sync(-1, l_37, uint32(2)) };
const float l_39 = l_mut_14;
const uint32 l_40 = l_mut_16;
const bool l_41 = l_38 < l_40;
const bool l_42 = l_36 == l_39;
const bool l_43 = l_36 < l_39;
const bool l_44 = l_42 && l_41;
const bool l_45 = l_43 || l_44;
const bool l_46 = l_36 != l_36;
const bool l_47 = l_39 != l_39;
const bool l_48 = l_46 || l_45;
const bool l_49 = l_46 && l_41;
const bool l_50 = (l_47) ? l_49 : l_48;
const float l_51 = (l_50) ? l_36 : l_39;
l_mut_14 = l_51;
const uint32 l_52 = (l_50) ? l_38 : l_40;
l_mut_16 = l_52;
const uint32 l_53 = threadIdx.x % 4 == 0 && row < 384;
if (l_53) {
const uint32 l_54 = z * 384 + row;
const uint32 l_55 = l_54 * uint32(16);
const uint32 l_56 = piece * 2;
const uint32 l_57 = l_55 + l_56;
const float l_58 = l_mut_14;
const uint32 l_59 = reinterpret_cast<uint32 const&>(l_58);
buffer_4[l_57] = l_59;
const uint32 l_60 = l_mut_16;
const uint32 l_61 = l_57 + uint32(1);
buffer_4[l_61] = l_60;
}
}
}
}

}