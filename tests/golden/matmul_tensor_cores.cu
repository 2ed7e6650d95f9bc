extern "C" __global__ void __launch_bounds__(384, 1)matmul (const __grid_constant__ TensorMap map_0, const __grid_constant__ TensorMap map_1, 
    const __nv_bfloat16* __restrict__ buffer_0, const __nv_bfloat16* __restrict__ buffer_1, const float* __restrict__ buffer_2, float* buffer_3, float* buffer_4, float* buffer_5, float* buffer_6, const __grid_constant__ info_st info
) {
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
give_registers();
if (threadIdx.x == 256) {
for (unsigned int tile = blockIdx.x; tile < 18; tile += gridDim.x) {
const unsigned int z = tile / 9, in_matrix = tile % 9, band = in_matrix / 24;
const unsigned int in_band = in_matrix % 24, height = min(3 - band * 8, 8u);
const unsigned int first_row = (band * 8 + in_band % height) * 128, first_column = in_band / height * 128;
for (unsigned int step = 0; step < 2; step++) {
const unsigned int at = ring + stage * 32768, barrier = full + 8 * stage;
await_phase(empty + 8 * stage, parity ^ 1);
expect_bytes(barrier, 32768);
fetch_box(at + 0, &map_0, step * 64, first_row, z, barrier);
fetch_box(at + 16384, &map_1, first_column + 0, step * 64, z, barrier);
fetch_box(at + 24576, &map_1, first_column + 64, step * 64, z, barrier);
if (++stage == 6) {
stage = 0;
parity ^= 1;
}
}
}
}
} else {
take_registers();
for (unsigned int tile = blockIdx.x; tile < 18; tile += gridDim.x) {
const unsigned int z = tile / 9, in_matrix = tile % 9, band = in_matrix / 24;
const unsigned int in_band = in_matrix % 24, height = min(3 - band * 8, 8u);
const unsigned int first_row = (band * 8 + in_band % height) * 128, first_column = in_band / height * 128;
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
float part[8];
#pragma unroll
for (int e = 0; e < 8; e++) part[e] = sums[i][16 * j + e / 2 * 4 + half * 2 + e % 2];
gather_columns(part);
const unsigned int in_group = threadIdx.x % 128;
const unsigned int in_part = in_group / 32 * 16 + in_group % 32 / 4 + 8 * half;
const unsigned int row = first_row + (group * 1 + i) * 64 + in_part;
const unsigned int column = first_column + 32 * j + threadIdx.x % 4 * 8;
if (row < 300 && column < 264) {
const uint32 l_0 = z * 300 + row;
const uint32 l_1 = column;
const uint32 l_2 = l_0 * uint32(264);
const uint32 l_3 = l_2 + l_1;
const uint32 l_4 = l_3 + uint32(1);
const uint32 l_5 = l_3 + uint32(2);
const uint32 l_6 = l_3 + uint32(3);
const float l_7 = part[0];
const float l_8 = part[1];
const float l_9 = part[2];
const float l_10 = part[3];
const uint32 l_11 = l_1 / uint32(4);
 const float_4 *_tmp_0 = reinterpret_cast< const float_4*>(buffer_2);
const float_4 l_12 = _tmp_0[l_11];
const float l_13 = l_12.i_0;
const float l_14 = l_12.i_1;
const float l_15 = l_12.i_2;
const float l_16 = l_12.i_3;
const float l_17 = buffer_3[l_0];
const float l_18 = l_7 + l_13;
const float l_19 = l_8 + l_14;
const float l_20 = l_9 + l_15;
const float l_21 = l_10 + l_16;
const float l_22 = l_18 * l_17;
const float l_23 = l_19 * l_17;
const float l_24 = l_20 * l_17;
const float l_25 = l_21 * l_17;
const float l_26 = tanh(l_22);
const float l_27 = tanh(l_23);
const float l_28 = tanh(l_24);
const float l_29 = tanh(l_25);
const uint32 l_30 = l_3 / uint32(4);
const float_4 l_31 = float_4{l_26,l_27,l_28,l_29};
 float_4 *_tmp_1 = reinterpret_cast< float_4*>(buffer_4);
_tmp_1[l_30] = reinterpret_cast< float_4 const&>(l_31);
const uint32 l_32 = l_1 + uint32(4);
const uint32 l_33 = l_2 + l_32;
const uint32 l_34 = l_33 + uint32(1);
const uint32 l_35 = l_33 + uint32(2);
const uint32 l_36 = l_33 + uint32(3);
const float l_37 = part[4];
const float l_38 = part[5];
const float l_39 = part[6];
const float l_40 = part[7];
const uint32 l_41 = l_32 / uint32(4);
 const float_4 *_tmp_2 = reinterpret_cast< const float_4*>(buffer_2);
const float_4 l_42 = _tmp_2[l_41];
const float l_43 = l_42.i_0;
const float l_44 = l_42.i_1;
const float l_45 = l_42.i_2;
const float l_46 = l_42.i_3;
const float l_47 = buffer_3[l_0];
const float l_48 = l_37 + l_43;
const float l_49 = l_38 + l_44;
const float l_50 = l_39 + l_45;
const float l_51 = l_40 + l_46;
const float l_52 = l_48 * l_47;
const float l_53 = l_49 * l_47;
const float l_54 = l_50 * l_47;
const float l_55 = l_51 * l_47;
const float l_56 = tanh(l_52);
const float l_57 = tanh(l_53);
const float l_58 = tanh(l_54);
const float l_59 = tanh(l_55);
const uint32 l_60 = l_33 / uint32(4);
const float_4 l_61 = float_4{l_56,l_57,l_58,l_59};
 float_4 *_tmp_3 = reinterpret_cast< float_4*>(buffer_4);
_tmp_3[l_60] = reinterpret_cast< float_4 const&>(l_61);
}
}
}
}

}