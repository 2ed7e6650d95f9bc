extern "C" __global__ void __launch_bounds__(256)map (
    const float* __restrict__ buffer_0, __nv_bfloat16* buffer_1, const __grid_constant__ info_st info
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
const float l_1 = buffer_0[idxGlobal];
const __nv_bfloat16 l_2 = __nv_bfloat16(l_1);
const float l_3 = float(l_2);
const float l_4 = l_1 - l_3;
const __nv_bfloat16 l_5 = __nv_bfloat16(l_4);
const float l_6 = float(l_5);
const float l_7 = l_4 - l_6;
const __nv_bfloat16 l_8 = __nv_bfloat16(l_7);
const float l_9 = float(l_8);
const uint32 l_10 = idxGlobal % uint32(100);
const uint32 l_11 = idxGlobal / uint32(100);
const uint32 l_12 = l_11 * uint32(112);
const uint32 l_13 = l_10 + l_12;
const __nv_bfloat16 l_14 = __nv_bfloat16(l_1);
buffer_1[l_13] = l_14;
const uint32 l_15 = idxGlobal % uint32(100);
const uint32 l_16 = idxGlobal / uint32(100);
const uint32 l_17 = uint32(28672) + l_15;
const uint32 l_18 = l_16 * uint32(112);
const uint32 l_19 = l_17 + l_18;
const __nv_bfloat16 l_20 = __nv_bfloat16(l_4);
buffer_1[l_19] = l_20;
const uint32 l_21 = idxGlobal % uint32(100);
const uint32 l_22 = idxGlobal / uint32(100);
const uint32 l_23 = uint32(57344) + l_21;
const uint32 l_24 = l_22 * uint32(112);
const uint32 l_25 = l_23 + l_24;
const __nv_bfloat16 l_26 = __nv_bfloat16(l_7);
buffer_1[l_25] = l_26;
}

}
extern "C" __global__ void __launch_bounds__(256)map (
    const float* __restrict__ buffer_0, __nv_bfloat16* buffer_1, const __grid_constant__ info_st info
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
const float l_1 = buffer_0[idxGlobal];
const __nv_bfloat16 l_2 = __nv_bfloat16(l_1);
const float l_3 = float(l_2);
const float l_4 = l_1 - l_3;
const __nv_bfloat16 l_5 = __nv_bfloat16(l_4);
const float l_6 = float(l_5);
const float l_7 = l_4 - l_6;
const __nv_bfloat16 l_8 = __nv_bfloat16(l_7);
const float l_9 = float(l_8);
const uint32 l_10 = idxGlobal % uint32(136);
const uint32 l_11 = idxGlobal / uint32(136);
const uint32 l_12 = l_11 * uint32(144);
const uint32 l_13 = l_10 + l_12;
const __nv_bfloat16 l_14 = __nv_bfloat16(l_1);
buffer_1[l_13] = l_14;
const uint32 l_15 = idxGlobal % uint32(136);
const uint32 l_16 = idxGlobal / uint32(136);
const uint32 l_17 = uint32(14400) + l_15;
const uint32 l_18 = l_16 * uint32(144);
const uint32 l_19 = l_17 + l_18;
const __nv_bfloat16 l_20 = __nv_bfloat16(l_4);
buffer_1[l_19] = l_20;
const uint32 l_21 = idxGlobal % uint32(136);
const uint32 l_22 = idxGlobal / uint32(136);
const uint32 l_23 = uint32(28800) + l_21;
const uint32 l_24 = l_22 * uint32(144);
const uint32 l_25 = l_23 + l_24;
const __nv_bfloat16 l_26 = __nv_bfloat16(l_7);
buffer_1[l_25] = l_26;
}

}
extern "C" __global__ void __launch_bounds__(384, 1)matmul (const __grid_constant__ TensorMap map_0, const __grid_constant__ TensorMap map_1, 
    const float* __restrict__ buffer_0, const float* __restrict__ buffer_1, float* buffer_2, __nv_bfloat16* buffer_3, __nv_bfloat16* buffer_4, const __grid_constant__ info_st info
) {
await_kernel_before();
extern __shared__ __align__(1024) unsigned char dynamic_shared_mem[];
const unsigned int ring = (shared_address(dynamic_shared_mem) + 1023) / 1024 * 1024;
const unsigned int full = ring + 196608, empty = full + 16;
const unsigned int group = threadIdx.x / 128;
if (threadIdx.x == 0) {
for (int i = 0; i < 2; i++) {
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
for (unsigned int tile = blockIdx.x; tile < 4; tile += gridDim.x) {
const unsigned int z = tile / 4, in_matrix = tile % 4, band = in_matrix / 16;
const unsigned int in_band = in_matrix % 16, height = min(2 - band * 8, 8u);
const unsigned int first_row = (band * 8 + in_band % height) * 128, first_column = in_band / height * 128;
for (unsigned int step = 0; step < 2; step++) {
const unsigned int at = ring + stage * 98304, barrier = full + 8 * stage;
await_phase(empty + 8 * stage, parity ^ 1);
expect_bytes(barrier, 98304);
fetch_box(at + 0, &map_0, step * 64, first_row, 0, barrier);
fetch_box(at + 16384, &map_0, step * 64, first_row, 1, barrier);
fetch_box(at + 32768, &map_0, step * 64, first_row, 2, barrier);
fetch_box(at + 49152, &map_1, first_column + 0, step * 64, 0, barrier);
fetch_box(at + 57344, &map_1, first_column + 64, step * 64, 0, barrier);
fetch_box(at + 65536, &map_1, first_column + 0, step * 64, 1, barrier);
fetch_box(at + 73728, &map_1, first_column + 64, step * 64, 1, barrier);
fetch_box(at + 81920, &map_1, first_column + 0, step * 64, 2, barrier);
fetch_box(at + 90112, &map_1, first_column + 64, step * 64, 2, barrier);
if (++stage == 2) {
stage = 0;
parity ^= 1;
}
}
}
}
} else {
take_registers<240>();
for (unsigned int tile = blockIdx.x; tile < 4; tile += gridDim.x) {
const unsigned int z = tile / 4, in_matrix = tile % 4, band = in_matrix / 16;
const unsigned int in_band = in_matrix % 16, height = min(2 - band * 8, 8u);
const unsigned int first_row = (band * 8 + in_band % height) * 128, first_column = in_band / height * 128;
float sums[1][64];
#pragma unroll
for (int s = 0; s < 64; s++) sums[0][s] = 0.0f;
for (unsigned int step = 0; step < 2; step++) {
const unsigned int at = ring + stage * 98304;
float partial[1][64];
await_phase(full + 8 * stage, parity);
begin_products();
#pragma unroll
for (int k = 0; k < 4; k++) {
#pragma unroll
for (int i = 0; i < 1; i++)
product_bf16_128_km(partial[i], matrix<1024, 16>(at + 16384 + (group * 1 + i) * 8192 + k * 32), matrix<1024, 8192>(at + 65536 + k * 2048), k);
}
#pragma unroll
for (int k = 0; k < 4; k++) {
#pragma unroll
for (int i = 0; i < 1; i++)
product_bf16_128_km(partial[i], matrix<1024, 16>(at + 0 + (group * 1 + i) * 8192 + k * 32), matrix<1024, 8192>(at + 81920 + k * 2048), 1);
}
#pragma unroll
for (int k = 0; k < 4; k++) {
#pragma unroll
for (int i = 0; i < 1; i++)
product_bf16_128_km(partial[i], matrix<1024, 16>(at + 32768 + (group * 1 + i) * 8192 + k * 32), matrix<1024, 8192>(at + 49152 + k * 2048), 1);
}
#pragma unroll
for (int k = 0; k < 4; k++) {
#pragma unroll
for (int i = 0; i < 1; i++)
product_bf16_128_km(partial[i], matrix<1024, 16>(at + 0 + (group * 1 + i) * 8192 + k * 32), matrix<1024, 8192>(at + 65536 + k * 2048), 1);
}
#pragma unroll
for (int k = 0; k < 4; k++) {
#pragma unroll
for (int i = 0; i < 1; i++)
product_bf16_128_km(partial[i], matrix<1024, 16>(at + 16384 + (group * 1 + i) * 8192 + k * 32), matrix<1024, 8192>(at + 49152 + k * 2048), 1);
}
#pragma unroll
for (int k = 0; k < 4; k++) {
#pragma unroll
for (int i = 0; i < 1; i++)
product_bf16_128_km(partial[i], matrix<1024, 16>(at + 0 + (group * 1 + i) * 8192 + k * 32), matrix<1024, 8192>(at + 49152 + k * 2048), 1);
}
end_products();
await_products<0>();
hold(partial[0]);
if (threadIdx.x % 128 == 0) arrive(empty + 8 * stage);
#pragma unroll
for (int s = 0; s < 64; s++) sums[0][s] += partial[0][s];
if (++stage == 2) {
stage = 0;
parity ^= 1;
}
}
bool are_finite = true;
#pragma unroll
for (int s = 0; s < 64; s++) are_finite = are_finite && fabsf(sums[0][s]) <= 3.4028235e38f;
if (!are_finite) {
float exact[64];
#pragma unroll
for (int s = 0; s < 64; s++) exact[s] = sums[0][s];
#pragma unroll 1
for (int s = 0; s < 64; s++) {
const unsigned int in_group = threadIdx.x % 128;
const unsigned int row = first_row + group * 64 + in_group / 32 * 16 + in_group % 32 / 4 + s / 2 % 2 * 8;
const unsigned int column = first_column + s / 4 * 8 + threadIdx.x % 4 * 2 + s % 2;
if (fabsf(exact[s]) <= 3.4028235e38f || row >= 256 || column >= 136) continue;
float sum = 0.0f;
for (unsigned int p = 0; p < 100 && sum == sum; p++) sum = fmaf(buffer_0[0ull + z * 0ull + row * 100ull + p * 1ull], buffer_1[0ull + z * 13600ull + column * 1ull + p * 136ull], sum);
exact[s] = sum;
}
#pragma unroll
for (int s = 0; s < 64; s++) sums[0][s] = exact[s];
}
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
if (column < 136) {
const uint32 l_0 = z * 256 + row;
const uint32 l_1 = column;
const uint32 l_2 = l_0 * uint32(136);
const uint32 l_3 = l_2 + l_1;
const uint32 l_4 = l_3 + uint32(1);
const uint32 l_5 = l_3 + uint32(2);
const uint32 l_6 = l_3 + uint32(3);
const float l_7 = part[0];
const float l_8 = part[1];
const float l_9 = part[2];
const float l_10 = part[3];
const uint32 l_11 = l_3 / uint32(4);
const float_4 l_12 = float_4{l_7,l_8,l_9,l_10};
 float_4 *_tmp_0 = reinterpret_cast< float_4*>(buffer_2);
_tmp_0[l_11] = reinterpret_cast< float_4 const&>(l_12);
const uint32 l_13 = l_1 + uint32(4);
const uint32 l_14 = l_0 * uint32(136);
const uint32 l_15 = l_14 + l_13;
const uint32 l_16 = l_15 + uint32(1);
const uint32 l_17 = l_15 + uint32(2);
const uint32 l_18 = l_15 + uint32(3);
const float l_19 = part[4];
const float l_20 = part[5];
const float l_21 = part[6];
const float l_22 = part[7];
const uint32 l_23 = l_15 / uint32(4);
const float_4 l_24 = float_4{l_19,l_20,l_21,l_22};
 float_4 *_tmp_1 = reinterpret_cast< float_4*>(buffer_2);
_tmp_1[l_23] = reinterpret_cast< float_4 const&>(l_24);
}
}
}
}

}