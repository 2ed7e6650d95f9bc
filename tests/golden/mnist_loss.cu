#include <cuda_runtime.h>
typedef unsigned int uint;
typedef unsigned char uint8;
typedef unsigned short uint16;
typedef unsigned int uint32;
typedef unsigned long long int uint64;
typedef signed char int8;
typedef signed short int16;
typedef signed int int32;
typedef signed long long int int64;

struct info_st {
    uint32 scalars_uint32[2];uint32 static_meta[14];
};


extern "C" __global__ void __launch_bounds__(256)row (
    const float* __restrict__ buffer_0, float* buffer_1, int32* buffer_2, int32* buffer_3, float* buffer_4, float* buffer_5, int32* buffer_6, const __grid_constant__ info_st info
) {
uint32 blockIdxGlobal = (blockIdx.z * gridDim.y * gridDim.x) + (blockIdx.y * gridDim.x) + blockIdx.x;
uint32 warpSizeChecked = min(warpSize, blockDim.x * blockDim.y * blockDim.z);
const uint32 l_0 = threadIdx.x % uint32(32);
const uint32 l_1 = threadIdx.x / uint32(32);
const uint32 l_2 = blockIdxGlobal * uint32(8);
const uint32 l_3 = l_2 + l_1;
const bool l_4 = l_3 < info.scalars_uint32[0];
const uint32 l_5 = info.scalars_uint32[0] - uint32(1);
const uint32 l_6 = (l_4) ? l_3 : l_5;
const uint32 l_7 = l_6 * uint32(128);
const uint32 l_8 = l_7 + l_0;
const uint32 l_9 = l_0 + uint32(32);
const uint32 l_10 = l_7 + l_9;
const uint32 l_11 = l_0 + uint32(64);
const uint32 l_12 = l_7 + l_11;
const uint32 l_13 = l_0 + uint32(96);
const uint32 l_14 = l_7 + l_13;
const float l_15 = (bool(false)) ? float(1.0) : float(128.0);
const float l_16 = buffer_1[uint32(0)];
const int32 l_17 = buffer_2[uint32(0)];
const bool l_18 = l_17 == int32(0);
const int32 l_19 = buffer_3[uint32(0)];
const int32 l_20 = l_19 + int32(1);
const float l_21 = buffer_0[l_8];
const float l_22 = buffer_0[l_10];
const float l_23 = buffer_0[l_12];
const float l_24 = buffer_0[l_14];
const float l_25 = l_21 + l_22;
const float l_26 = l_25 + l_23;
const float l_27 = l_26 + l_24;
const float l_28 = { __shfl_xor_sync(-1, l_27, uint32(16)) };
const float l_29 = l_27 + l_28;
const float l_30 = { __shfl_xor_sync(-1, l_29, uint32(8)) };
const float l_31 = l_29 + l_30;
const float l_32 = { __shfl_xor_sync(-1, l_31, uint32(4)) };
const float l_33 = l_31 + l_32;
const float l_34 = { __shfl_xor_sync(-1, l_33, uint32(2)) };
const float l_35 = l_33 + l_34;
const float l_36 = { __shfl_xor_sync(-1, l_35, uint32(1)) };
const float l_37 = l_35 + l_36;
const float l_38 = l_37 / l_15;
const float l_39 = l_38 * float(128.0);
const float l_40 = l_16 + l_39;
const bool l_41 = l_38 != l_38;
const bool l_42 = l_41 && l_18;
const int32 l_43 = (l_42) ? l_20 : l_17;
const bool l_44 = l_0 == uint32(0);
const bool l_45 = l_4 && l_44;
if (l_45) {
buffer_4[uint32(0)] = l_38;
buffer_5[uint32(0)] = l_40;
buffer_6[uint32(0)] = l_43;
}

}