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

struct __align__(16) float_4 {
    float i_0;
    float i_1;
    float i_2;
    float i_3;
};
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
const uint32 l_8 = l_0 * uint32(4);
const uint32 l_9 = l_8 + uint32(1);
const uint32 l_10 = l_8 + uint32(2);
const uint32 l_11 = l_8 + uint32(3);
const uint32 l_12 = l_7 + l_8;
const uint32 l_13 = l_12 + uint32(1);
const uint32 l_14 = l_12 + uint32(2);
const uint32 l_15 = l_12 + uint32(3);
const float l_16 = (bool(false)) ? float(1.0) : float(128.0);
const float l_17 = buffer_1[uint32(0)];
const int32 l_18 = buffer_2[uint32(0)];
const bool l_19 = l_18 == int32(0);
const int32 l_20 = buffer_3[uint32(0)];
const int32 l_21 = l_20 + int32(1);
const uint32 l_22 = l_12 / uint32(4);
 const float_4 *_tmp_0 = reinterpret_cast< const float_4*>(buffer_0);
const float_4 l_23 = _tmp_0[l_22];
const float l_24 = l_23.i_0;
const float l_25 = l_23.i_1;
const float l_26 = l_23.i_2;
const float l_27 = l_23.i_3;
const float l_28 = l_24 + l_25;
const float l_29 = l_28 + l_26;
const float l_30 = l_29 + l_27;
const float l_31 = { __shfl_xor_sync(-1, l_30, uint32(16)) };
const float l_32 = l_30 + l_31;
const float l_33 = { __shfl_xor_sync(-1, l_32, uint32(8)) };
const float l_34 = l_32 + l_33;
const float l_35 = { __shfl_xor_sync(-1, l_34, uint32(4)) };
const float l_36 = l_34 + l_35;
const float l_37 = { __shfl_xor_sync(-1, l_36, uint32(2)) };
const float l_38 = l_36 + l_37;
const float l_39 = { __shfl_xor_sync(-1, l_38, uint32(1)) };
const float l_40 = l_38 + l_39;
const float l_41 = l_40 / l_16;
const float l_42 = l_41 * float(128.0);
const float l_43 = l_17 + l_42;
const bool l_44 = l_41 != l_41;
const bool l_45 = l_44 && l_19;
const int32 l_46 = (l_45) ? l_21 : l_18;
const bool l_47 = l_0 == uint32(0);
const bool l_48 = l_4 && l_47;
if (l_48) {
buffer_4[uint32(0)] = l_41;
buffer_5[uint32(0)] = l_43;
buffer_6[uint32(0)] = l_46;
}

}