//! The prelude of kernels on tensor cores: all inline PTX of copies, barriers and products.
//!
//! A schedule writes the frame of such a kernel as lines of CUDA C++. The printer puts the definitions of the called
//! functions before the kernel. Both kinds of tensor cores have functions of the same names and layouts, so a frame serves
//! both. A host compiler supplies its own definitions; those of products forward to one reference.

mod product;
mod warpgroups;
mod warps;

use crate::device_model::TensorCores;
use product::Function;
pub use product::WarpgroupProduct;

/// The functions that all tensor cores share. A function comes after those that it calls.
const FUNCTIONS: &[Function] = &[
    (
        "shared_address",
        "unsigned int shared_address(const void *place) {\n\
         return (unsigned int)__cvta_generic_to_shared(place);\n}",
    ),
    (
        "init_barrier",
        "void init_barrier(unsigned int barrier, unsigned int n_arrivals) {\n\
         asm volatile(\"mbarrier.init.shared::cta.b64 [%0], %1;\" :: \"r\"(barrier), \"r\"(n_arrivals));\n}",
    ),
    (
        "await_turn",
        "void await_turn(unsigned int group) {\n\
         asm volatile(\"bar.sync %0, 256;\" :: \"r\"(1 + group) : \"memory\");\n}",
    ),
    (
        "give_turn",
        "void give_turn(unsigned int group) {\n\
         asm volatile(\"bar.arrive %0, 256;\" :: \"r\"(1 + group) : \"memory\");\n}",
    ),
    (
        "store_word",
        "void store_word(unsigned int to, unsigned int word) {\n\
         asm volatile(\"st.shared.b32 [%0], %1;\" :: \"r\"(to), \"r\"(word) : \"memory\");\n}",
    ),
    (
        "pack_bf16",
        "unsigned int pack_bf16(float low, float high) {\n\
         unsigned int word;\n\
         asm(\"cvt.rn.bf16x2.f32 %0, %1, %2;\" : \"=r\"(word) : \"f\"(high), \"f\"(low));\n\
         return word;\n}",
    ),
    (
        "pack_f16",
        "unsigned int pack_f16(float low, float high) {\n\
         unsigned int word;\n\
         asm(\"cvt.rn.f16x2.f32 %0, %1, %2;\" : \"=r\"(word) : \"f\"(high), \"f\"(low));\n\
         return word;\n}",
    ),
    (
        "gather_columns",
        "void gather_columns(float (&x)[8]) {\n\
         const unsigned int lane = threadIdx.x % 4;\n\
         #pragma unroll\n\
         for (int i = 0; i < 4; i++) {\n\
         const int low = i % 2 + i / 2 * 4, high = low + 2;\n\
         const float other = __shfl_xor_sync(~0u, lane & 1 ? x[low] : x[high], 1);\n\
         if (lane & 1) x[low] = other; else x[high] = other;\n\
         }\n\
         #pragma unroll\n\
         for (int low = 0; low < 4; low++) {\n\
         const float other = __shfl_xor_sync(~0u, lane & 2 ? x[low] : x[low + 4], 2);\n\
         if (lane & 2) x[low] = other; else x[low + 4] = other;\n\
         }\n}",
    ),
];

/// The definitions of the functions that `text` calls, products included, for the device and for a host.
pub fn definitions(text: &str, cores: TensorCores, products: &[WarpgroupProduct]) -> [String; 2] {
    let (map, functions): (_, &[Function]) = match cores {
        TensorCores::Warpgroups => (warpgroups::TENSOR_MAP, warpgroups::FUNCTIONS),
        TensorCores::Warps => (warps::TENSOR_MAP, warps::FUNCTIONS),
    };
    let on_device: Vec<String> = products.iter().map(|product| cores.definition(product)).collect();
    let mut called = vec![];
    let mut callers = on_device.concat() + text;
    for (name, definition) in FUNCTIONS.iter().chain(functions).rev() {
        if callers.contains(&format!("{name}(")) || callers.contains(&format!("{name}<")) {
            let qualifiers = if definition.starts_with("template") { "" } else { INLINE };
            called.push(format!("{qualifiers}{definition}\n"));
            callers += definition;
        }
    }
    called.reverse();
    let [mut device, mut host] = [map.to_string() + &called.concat(), String::new()];
    for (product, on_device) in products.iter().zip(on_device) {
        device += &format!("{INLINE}{on_device}\n");
        host += &format!("{}\n", product.on_host());
    }
    [device, host]
}

impl TensorCores {
    fn definition(self, product: &WarpgroupProduct) -> String {
        match self {
            TensorCores::Warpgroups => warpgroups::definition(product),
            TensorCores::Warps => warps::definition(product),
        }
    }
}

const INLINE: &str = "__device__ __forceinline__ ";
