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
struct __align__(4) uint8_4 {
    uint8 i_0;
    uint8 i_1;
    uint8 i_2;
    uint8 i_3;
};
struct info_st {
    uint32 scalars_uint32[2];uint32 static_meta[8];
};


extern "C" __global__ void __launch_bounds__(128)row (
    const int32* __restrict__ buffer_0, const int32* __restrict__ buffer_1, const uint8* __restrict__ buffer_2, float* buffer_3, const __grid_constant__ info_st info
) {
uint32 blockIdxGlobal = (blockIdx.z * gridDim.y * gridDim.x) + (blockIdx.y * gridDim.x) + blockIdx.x;
const uint32 l_0 = blockIdxGlobal * uint32(784);
const uint32 l_1 = threadIdx.x * uint32(4);
const uint32 l_2 = l_1 + uint32(1);
const uint32 l_3 = l_1 + uint32(2);
const uint32 l_4 = l_1 + uint32(3);
const uint32 l_5 = l_0 + l_1;
const uint32 l_6 = l_5 + uint32(1);
const uint32 l_7 = l_5 + uint32(2);
const uint32 l_8 = l_5 + uint32(3);
const uint32 l_9 = threadIdx.x + uint32(128);
const uint32 l_10 = l_9 * uint32(4);
const bool l_11 = l_10 < uint32(784);
const uint32 l_12 = (l_11) ? l_10 : uint32(0);
const uint32 l_13 = l_12 + uint32(1);
const uint32 l_14 = l_12 + uint32(2);
const uint32 l_15 = l_12 + uint32(3);
const uint32 l_16 = l_0 + l_12;
const uint32 l_17 = l_16 + uint32(1);
const uint32 l_18 = l_16 + uint32(2);
const uint32 l_19 = l_16 + uint32(3);
const int32 l_20 = buffer_0[uint32(0)];
const int32 l_21 = l_20 % int32(469);
const int32 l_22 = l_21 * int32(128);
const int32 l_23 = int32(blockIdxGlobal);
const int32 l_24 = l_22 + l_23;
const uint32 l_25 = uint32(l_24);
const int32 l_26 = buffer_1[l_25];
const uint32 l_27 = uint32(l_26);
const uint32 l_28 = l_27 * uint32(784);
const uint32 l_29 = l_1 + l_28;
const uint32 l_30 = l_29 / uint32(4);
 const uint8_4 *_tmp_0 = reinterpret_cast< const uint8_4*>(buffer_2);
const uint8_4 l_31 = _tmp_0[l_30];
const uint8 l_32 = l_31.i_0;
const uint8 l_33 = l_31.i_1;
const uint8 l_34 = l_31.i_2;
const uint8 l_35 = l_31.i_3;
const float l_36 = float(l_32);
const float l_37 = float(l_33);
const float l_38 = float(l_34);
const float l_39 = float(l_35);
const float l_40 = l_36 * float(0.003921568859368563);
const float l_41 = l_37 * float(0.003921568859368563);
const float l_42 = l_38 * float(0.003921568859368563);
const float l_43 = l_39 * float(0.003921568859368563);
const uint32 l_44 = uint32(l_26);
const uint32 l_45 = l_44 * uint32(784);
const uint32 l_46 = l_12 + l_45;
const uint32 l_47 = l_46 / uint32(4);
 const uint8_4 *_tmp_1 = reinterpret_cast< const uint8_4*>(buffer_2);
const uint8_4 l_48 = _tmp_1[l_47];
const uint8 l_49 = l_48.i_0;
const uint8 l_50 = l_48.i_1;
const uint8 l_51 = l_48.i_2;
const uint8 l_52 = l_48.i_3;
const float l_53 = float(l_49);
const float l_54 = float(l_50);
const float l_55 = float(l_51);
const float l_56 = float(l_52);
const float l_57 = l_53 * float(0.003921568859368563);
const float l_58 = l_54 * float(0.003921568859368563);
const float l_59 = l_55 * float(0.003921568859368563);
const float l_60 = l_56 * float(0.003921568859368563);
const uint32 l_61 = l_5 / uint32(4);
const float_4 l_62 = float_4{l_40,l_41,l_42,l_43};
 float_4 *_tmp_2 = reinterpret_cast< float_4*>(buffer_3);
_tmp_2[l_61] = reinterpret_cast< float_4 const&>(l_62);
if (l_11) {
const uint32 l_63 = l_16 / uint32(4);
const float_4 l_64 = float_4{l_57,l_58,l_59,l_60};
 float_4 *_tmp_3 = reinterpret_cast< float_4*>(buffer_3);
_tmp_3[l_63] = reinterpret_cast< float_4 const&>(l_64);
}

}