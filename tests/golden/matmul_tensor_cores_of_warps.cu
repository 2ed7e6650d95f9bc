extern "C" __global__ void __launch_bounds__(384, 1)matmul (
    const __nv_bfloat16* __restrict__ buffer_0, const __nv_bfloat16* __restrict__ buffer_1, __nv_bfloat16* buffer_2, __nv_bfloat16* buffer_3, const __grid_constant__ info_st info
) {
await_kernel_before();
const TensorMap map_0 = {(const char *)buffer_0 + 0, 2, {72, 384, 1, 1, 1}, {72, 27648, 0, 0}, {64, 256}};
const TensorMap map_1 = {(const char *)buffer_1 + 0, 2, {264, 72, 1, 1, 1}, {264, 19008, 0, 0}, {64, 64}};
extern __shared__ __align__(1024) unsigned char dynamic_shared_mem[];
const unsigned int ring = (shared_address(dynamic_shared_mem) + 1023) / 1024 * 1024;
const unsigned int full = ring + 122880, empty = full + 24;
const unsigned int group = threadIdx.x / 128;
if (threadIdx.x == 0) {
for (int i = 0; i < 3; i++) {
init_barrier(full + 8 * i, 128);
init_barrier(empty + 8 * i, 8);
}
}
publish_barriers();
__syncthreads();
unsigned int stage = 0, parity = 0;
if (group == 2) {
{
for (unsigned int tile = blockIdx.x; tile < 10; tile += gridDim.x) {
const unsigned int z = tile / 10, in_matrix = tile % 10, band = in_matrix / 40;
const unsigned int in_band = in_matrix % 40, height = min(2 - band * 8, 8u);
const unsigned int first_row = (band * 8 + in_band % height) * 256, first_column = in_band / height * 64;
for (unsigned int step = 0; step < 2; step++) {
const unsigned int at = ring + stage * 40960, barrier = full + 8 * stage;
await_phase(empty + 8 * stage, parity ^ 1);
copy_box(at + 0, map_0, step * 64, first_row, 0, 0, 0);
copy_box(at + 32768, map_1, first_column + 0, step * 64, 0, 0, 0);
arrive_after_copies(barrier);
if (++stage == 3) {
stage = 0;
parity ^= 1;
}
}
}
}
} else {
for (unsigned int tile = blockIdx.x; tile < 10; tile += gridDim.x) {
const unsigned int z = tile / 10, in_matrix = tile % 10, band = in_matrix / 40;
const unsigned int in_band = in_matrix % 40, height = min(2 - band * 8, 8u);
const unsigned int first_row = (band * 8 + in_band % height) * 256, first_column = in_band / height * 64;
float sums[2][32];
for (unsigned int step = 0; step < 2; step++) {
const unsigned int at = ring + stage * 40960;
await_phase(full + 8 * stage, parity);
begin_products();
#pragma unroll
for (int k = 0; k < 4; k++) {
#pragma unroll
for (int i = 0; i < 1; i++)
product_bf16_64x2_km(sums, matrix<1024, 16>(at + (group * 2 + i) * 8192 + k * 32), matrix<1024, 8192>(at + 32768 + k * 2048), step | k);
}
end_products();
await_products<1>();
__syncwarp();
if (threadIdx.x % 32 == 0) arrive(empty + 8 * stage);
if (++stage == 3) {
stage = 0;
parity ^= 1;
}
}
await_products<0>();
#pragma unroll
for (int i = 0; i < 2; i++) hold(sums[i]);
#pragma unroll
for (int i = 0; i < 2; i++)
#pragma unroll
for (int j = 0; j < 2; j++)
#pragma unroll
for (int half = 0; half < 2; half++) {
const unsigned int in_group = threadIdx.x % 128;
const unsigned int in_part = in_group / 32 * 16 + in_group % 32 / 4 + 8 * half;
const unsigned int row = first_row + (group * 2 + i) * 64 + in_part;
const unsigned int column = first_column + 32 * j + threadIdx.x % 4 * 8;
float part[8];
#pragma unroll
for (int e = 0; e < 8; e++) part[e] = sums[i][16 * j + e / 2 * 4 + half * 2 + e % 2];
gather_columns(part);
if (row < 384 && column < 264) {
const uint32 l_0 = z * 384 + row;
const uint32 l_1 = column;
const uint32 l_2 = l_0 * uint32(264);
const uint32 l_3 = l_2 + l_1;
const uint32 l_4 = l_3 + uint32(1);
const uint32 l_5 = l_3 + uint32(2);
const uint32 l_6 = l_3 + uint32(3);
const uint32 l_7 = l_3 + uint32(4);
const uint32 l_8 = l_3 + uint32(5);
const uint32 l_9 = l_3 + uint32(6);
const uint32 l_10 = l_3 + uint32(7);
const float l_11 = part[0];
const float l_12 = part[1];
const float l_13 = part[2];
const float l_14 = part[3];
const float l_15 = part[4];
const float l_16 = part[5];
const float l_17 = part[6];
const float l_18 = part[7];
const uint32 l_19 = l_3 / uint32(8);
 __nv_bfloat16_8 *_tmp_0 = reinterpret_cast< __nv_bfloat16_8*>(buffer_2);
const __nv_bfloat16_8 l_20 = _tmp_0[l_19];
const __nv_bfloat16 l_21 = l_20.i_0;
const __nv_bfloat16 l_22 = l_20.i_1;
const __nv_bfloat16 l_23 = l_20.i_2;
const __nv_bfloat16 l_24 = l_20.i_3;
const __nv_bfloat16 l_25 = l_20.i_4;
const __nv_bfloat16 l_26 = l_20.i_5;
const __nv_bfloat16 l_27 = l_20.i_6;
const __nv_bfloat16 l_28 = l_20.i_7;
const float l_29 = float(l_21);
const float l_30 = float(l_22);
const float l_31 = float(l_23);
const float l_32 = float(l_24);
const float l_33 = float(l_25);
const float l_34 = float(l_26);
const float l_35 = float(l_27);
const float l_36 = float(l_28);
const float l_37 = l_11 * l_29;
const float l_38 = l_12 * l_30;
const float l_39 = l_13 * l_31;
const float l_40 = l_14 * l_32;
const float l_41 = l_15 * l_33;
const float l_42 = l_16 * l_34;
const float l_43 = l_17 * l_35;
const float l_44 = l_18 * l_36;
const __nv_bfloat16 l_45 = __nv_bfloat16(l_37);
const __nv_bfloat16 l_46 = __nv_bfloat16(l_38);
const __nv_bfloat16 l_47 = __nv_bfloat16(l_39);
const __nv_bfloat16 l_48 = __nv_bfloat16(l_40);
const __nv_bfloat16 l_49 = __nv_bfloat16(l_41);
const __nv_bfloat16 l_50 = __nv_bfloat16(l_42);
const __nv_bfloat16 l_51 = __nv_bfloat16(l_43);
const __nv_bfloat16 l_52 = __nv_bfloat16(l_44);
const uint32 l_53 = l_3 / uint32(8);
const __nv_bfloat16_8 l_54 = __nv_bfloat16_8{l_45,l_46,l_47,l_48,l_49,l_50,l_51,l_52};
 __nv_bfloat16_8 *_tmp_1 = reinterpret_cast< __nv_bfloat16_8*>(buffer_3);
_tmp_1[l_53] = reinterpret_cast< __nv_bfloat16_8 const&>(l_54);
}
}
}
}

}