extern "C" __global__ void __launch_bounds__(384, 1)matmul (const __grid_constant__ TensorMap map_0, const __grid_constant__ TensorMap map_1, 
    const __nv_bfloat16* __restrict__ buffer_0, const __nv_bfloat16* __restrict__ buffer_1, __nv_bfloat16* buffer_2, __nv_bfloat16* buffer_3, const __grid_constant__ info_st info
) {
await_kernel_before();
extern __shared__ __align__(1024) unsigned char dynamic_shared_mem[];
const unsigned int ring = (shared_address(dynamic_shared_mem) + 1023) / 1024 * 1024;
const unsigned int full = ring + 196608, empty = full + 48;
const unsigned int group = threadIdx.x / 128;
if (threadIdx.x == 0) {
for (int i = 0; i < 6; i++) {
init_barrier(full + 8 * i, 1);
init_barrier(empty + 8 * i, 2);
}
}
publish_barriers();
__syncthreads();
unsigned int stage = 0, parity = 0;
if (group == 2) {
give_registers<24>();
if (threadIdx.x == 256) {
for (unsigned int tile = blockIdx.x; tile < 9; tile += gridDim.x) {
const unsigned int z = tile / 9, in_matrix = tile % 9, band = in_matrix / 24;
const unsigned int in_band = in_matrix % 24, height = min(3 - band * 8, 8u);
const unsigned int first_row = (band * 8 + in_band % height) * 128, first_column = in_band / height * 128;
for (unsigned int step = 0; step < 2; step++) {
const unsigned int at = ring + stage * 32768, barrier = full + 8 * stage;
await_phase(empty + 8 * stage, parity ^ 1);
expect_bytes(barrier, 32768);
fetch_box(at + 0, &map_0, step * 64, first_row, 0, barrier);
fetch_box(at + 16384, &map_1, first_column + 0, step * 64, 0, barrier);
fetch_box(at + 24576, &map_1, first_column + 64, step * 64, 0, barrier);
if (++stage == 6) {
stage = 0;
parity ^= 1;
}
}
}
}
} else {
take_registers<240>();
for (unsigned int tile = blockIdx.x; tile < 9; tile += gridDim.x) {
const unsigned int z = tile / 9, in_matrix = tile % 9, band = in_matrix / 24;
const unsigned int in_band = in_matrix % 24, height = min(3 - band * 8, 8u);
const unsigned int first_row = (band * 8 + in_band % height) * 128, first_column = in_band / height * 128;
uint4 held_0[1][4][2];
#pragma unroll
for (int i = 0; i < 1; i++)
#pragma unroll
for (int j = 0; j < 4; j++)
#pragma unroll
for (int half = 0; half < 2; half++) {
const unsigned int in_group = threadIdx.x % 128;
const unsigned int in_part = in_group / 32 * 16 + in_group % 32 / 4 + 8 * half;
const unsigned int row = first_row + (group * 1 + i) * 64 + in_part;
const unsigned int column = first_column + 32 * j + threadIdx.x % 4 * 8;
if (column < 264) {
const uint32 l_0 = z * 384 + row;
const uint32 l_1 = column;
const uint32 l_2 = l_0 * uint32(264);
const uint32 l_3 = l_2 + l_1;
held_0[i][j][half] = *(const uint4 *)(buffer_2 + l_3);
}
}
float sums[1][64];
for (unsigned int step = 0; step < 2; step++) {
const unsigned int at = ring + stage * 32768;
await_phase(full + 8 * stage, parity);
begin_products();
#pragma unroll
for (int k = 0; k < 4; k++) {
#pragma unroll
for (int i = 0; i < 1; i++)
product_bf16_128_km(sums[i], matrix<1024, 16>(at + (group * 1 + i) * 8192 + k * 32), matrix<1024, 8192>(at + 16384 + k * 2048), step | k);
}
end_products();
await_products<1>();
if (step > 0 && threadIdx.x % 128 == 0) arrive(empty + 8 * ((stage + 5) % 6));
if (++stage == 6) {
stage = 0;
parity ^= 1;
}
}
await_products<0>();
#pragma unroll
for (int i = 0; i < 1; i++) hold(sums[i]);
if (threadIdx.x % 128 == 0) arrive(empty + 8 * ((stage + 5) % 6));
#pragma unroll
for (int i = 0; i < 1; i++)
#pragma unroll
for (int j = 0; j < 4; j++)
#pragma unroll
for (int half = 0; half < 2; half++) {
const unsigned int in_group = threadIdx.x % 128;
const unsigned int in_part = in_group / 32 * 16 + in_group % 32 / 4 + 8 * half;
const unsigned int row = first_row + (group * 1 + i) * 64 + in_part;
const unsigned int column = first_column + 32 * j + threadIdx.x % 4 * 8;
float part[8];
#pragma unroll
for (int e = 0; e < 8; e++) part[e] = sums[i][16 * j + e / 2 * 4 + half * 2 + e % 2];
gather_columns(part);
if (column < 264) {
const uint32 l_4 = z * 384 + row;
const uint32 l_5 = column;
const uint32 l_6 = l_4 * uint32(264);
const uint32 l_7 = l_6 + l_5;
const uint32 l_8 = l_7 + uint32(1);
const uint32 l_9 = l_7 + uint32(2);
const uint32 l_10 = l_7 + uint32(3);
const uint32 l_11 = l_7 + uint32(4);
const uint32 l_12 = l_7 + uint32(5);
const uint32 l_13 = l_7 + uint32(6);
const uint32 l_14 = l_7 + uint32(7);
const float l_15 = part[0];
const float l_16 = part[1];
const float l_17 = part[2];
const float l_18 = part[3];
const float l_19 = part[4];
const float l_20 = part[5];
const float l_21 = part[6];
const float l_22 = part[7];
const __nv_bfloat16 l_23 = reinterpret_cast<const __nv_bfloat16 *>(&held_0[i][j][half])[0];
const float l_24 = float(l_23);
const __nv_bfloat16 l_25 = reinterpret_cast<const __nv_bfloat16 *>(&held_0[i][j][half])[1];
const float l_26 = float(l_25);
const __nv_bfloat16 l_27 = reinterpret_cast<const __nv_bfloat16 *>(&held_0[i][j][half])[2];
const float l_28 = float(l_27);
const __nv_bfloat16 l_29 = reinterpret_cast<const __nv_bfloat16 *>(&held_0[i][j][half])[3];
const float l_30 = float(l_29);
const __nv_bfloat16 l_31 = reinterpret_cast<const __nv_bfloat16 *>(&held_0[i][j][half])[4];
const float l_32 = float(l_31);
const __nv_bfloat16 l_33 = reinterpret_cast<const __nv_bfloat16 *>(&held_0[i][j][half])[5];
const float l_34 = float(l_33);
const __nv_bfloat16 l_35 = reinterpret_cast<const __nv_bfloat16 *>(&held_0[i][j][half])[6];
const float l_36 = float(l_35);
const __nv_bfloat16 l_37 = reinterpret_cast<const __nv_bfloat16 *>(&held_0[i][j][half])[7];
const float l_38 = float(l_37);
const float l_39 = l_15 * l_24;
const float l_40 = l_16 * l_26;
const float l_41 = l_17 * l_28;
const float l_42 = l_18 * l_30;
const float l_43 = l_19 * l_32;
const float l_44 = l_20 * l_34;
const float l_45 = l_21 * l_36;
const float l_46 = l_22 * l_38;
const __nv_bfloat16 l_47 = __nv_bfloat16(l_39);
const __nv_bfloat16 l_48 = __nv_bfloat16(l_40);
const __nv_bfloat16 l_49 = __nv_bfloat16(l_41);
const __nv_bfloat16 l_50 = __nv_bfloat16(l_42);
const __nv_bfloat16 l_51 = __nv_bfloat16(l_43);
const __nv_bfloat16 l_52 = __nv_bfloat16(l_44);
const __nv_bfloat16 l_53 = __nv_bfloat16(l_45);
const __nv_bfloat16 l_54 = __nv_bfloat16(l_46);
const uint32 l_55 = l_7 / uint32(8);
const __nv_bfloat16_8 l_56 = __nv_bfloat16_8{l_47,l_48,l_49,l_50,l_51,l_52,l_53,l_54};
 __nv_bfloat16_8 *_tmp_0 = reinterpret_cast< __nv_bfloat16_8*>(buffer_3);
_tmp_0[l_55] = reinterpret_cast< __nv_bfloat16_8 const&>(l_56);
}
}
}
}

}