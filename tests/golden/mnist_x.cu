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
    uint32 scalars_uint32[2];uint32 static_meta[8];
};


extern "C" __global__ void __launch_bounds__(128)row (
    const int32* __restrict__ buffer_0, const int32* __restrict__ buffer_1, const uint8* __restrict__ buffer_2, float* buffer_3, const __grid_constant__ info_st info
) {
uint32 blockIdxGlobal = (blockIdx.z * gridDim.y * gridDim.x) + (blockIdx.y * gridDim.x) + blockIdx.x;
const uint32 l_0 = blockIdxGlobal * uint32(784);
const uint32 l_1 = l_0 + threadIdx.x;
const uint32 l_2 = threadIdx.x + uint32(128);
const uint32 l_3 = l_0 + l_2;
const uint32 l_4 = threadIdx.x + uint32(256);
const uint32 l_5 = l_0 + l_4;
const uint32 l_6 = threadIdx.x + uint32(384);
const uint32 l_7 = l_0 + l_6;
const uint32 l_8 = threadIdx.x + uint32(512);
const uint32 l_9 = l_0 + l_8;
const uint32 l_10 = threadIdx.x + uint32(640);
const uint32 l_11 = l_0 + l_10;
const uint32 l_12 = threadIdx.x + uint32(768);
const bool l_13 = l_12 < uint32(784);
const uint32 l_14 = (l_13) ? l_12 : uint32(0);
const uint32 l_15 = l_0 + l_14;
const int32 l_16 = buffer_0[uint32(0)];
const int32 l_17 = l_16 % int32(469);
const int32 l_18 = l_17 * int32(128);
const int32 l_19 = int32(blockIdxGlobal);
const int32 l_20 = l_18 + l_19;
const uint32 l_21 = uint32(l_20);
const int32 l_22 = buffer_1[l_21];
const uint32 l_23 = l_1 % uint32(784);
const uint32 l_24 = uint32(l_22);
const uint32 l_25 = l_24 * uint32(784);
const uint32 l_26 = l_23 + l_25;
const uint8 l_27 = buffer_2[l_26];
const float l_28 = float(l_27);
const float l_29 = l_28 / float(255.0);
const uint32 l_30 = l_3 % uint32(784);
const uint32 l_31 = uint32(l_22);
const uint32 l_32 = l_31 * uint32(784);
const uint32 l_33 = l_30 + l_32;
const uint8 l_34 = buffer_2[l_33];
const float l_35 = float(l_34);
const float l_36 = l_35 / float(255.0);
const uint32 l_37 = l_5 % uint32(784);
const uint32 l_38 = uint32(l_22);
const uint32 l_39 = l_38 * uint32(784);
const uint32 l_40 = l_37 + l_39;
const uint8 l_41 = buffer_2[l_40];
const float l_42 = float(l_41);
const float l_43 = l_42 / float(255.0);
const uint32 l_44 = l_7 % uint32(784);
const uint32 l_45 = uint32(l_22);
const uint32 l_46 = l_45 * uint32(784);
const uint32 l_47 = l_44 + l_46;
const uint8 l_48 = buffer_2[l_47];
const float l_49 = float(l_48);
const float l_50 = l_49 / float(255.0);
const uint32 l_51 = l_9 % uint32(784);
const uint32 l_52 = uint32(l_22);
const uint32 l_53 = l_52 * uint32(784);
const uint32 l_54 = l_51 + l_53;
const uint8 l_55 = buffer_2[l_54];
const float l_56 = float(l_55);
const float l_57 = l_56 / float(255.0);
const uint32 l_58 = l_11 % uint32(784);
const uint32 l_59 = uint32(l_22);
const uint32 l_60 = l_59 * uint32(784);
const uint32 l_61 = l_58 + l_60;
const uint8 l_62 = buffer_2[l_61];
const float l_63 = float(l_62);
const float l_64 = l_63 / float(255.0);
const uint32 l_65 = l_15 % uint32(784);
const uint32 l_66 = uint32(l_22);
const uint32 l_67 = l_66 * uint32(784);
const uint32 l_68 = l_65 + l_67;
const uint8 l_69 = buffer_2[l_68];
const float l_70 = float(l_69);
const float l_71 = l_70 / float(255.0);
buffer_3[l_1] = l_29;
buffer_3[l_3] = l_36;
buffer_3[l_5] = l_43;
buffer_3[l_7] = l_50;
buffer_3[l_9] = l_57;
buffer_3[l_11] = l_64;
if (l_13) {
buffer_3[l_15] = l_71;
}

}