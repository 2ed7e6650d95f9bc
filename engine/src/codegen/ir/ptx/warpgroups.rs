//! Products of four warps together (`wgmma`), barriers that count bytes, and copies by tensor maps: Hopper.

use super::product::{Function, WarpgroupProduct, list};
use crate::ir::DType;

pub const FUNCTIONS: &[Function] = &[
    (
        "publish_barriers",
        "void publish_barriers() {\n\
         asm volatile(\"fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;\" ::: \"memory\");\n}",
    ),
    (
        "expect_bytes",
        "void expect_bytes(unsigned int barrier, unsigned int n_bytes) {\n\
         asm volatile(\"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\" :: \"r\"(barrier), \"r\"(n_bytes) : \
         \"memory\");\n}",
    ),
    (
        "arrive",
        "void arrive(unsigned int barrier) {\n\
         asm volatile(\"mbarrier.arrive.shared::cta.b64 _, [%0];\" :: \"r\"(barrier) : \"memory\");\n}",
    ),
    (
        "await_phase",
        "void await_phase(unsigned int barrier, unsigned int parity) {\n\
         asm volatile(\"{\\n.reg .pred p;\\nagain:\\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\\n@!p bra \
         again;\\n}\" :: \"r\"(barrier), \"r\"(parity) : \"memory\");\n}",
    ),
    (
        "fetch_box",
        "void fetch_box(unsigned int to, const TensorMap *map, unsigned int x, unsigned int y, unsigned int z, \
         unsigned int barrier) {\n\
         asm volatile(\"cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, \
         %4}], [%5];\" :: \"r\"(to), \"l\"(map), \"r\"(x), \"r\"(y), \"r\"(z), \"r\"(barrier) : \"memory\");\n}",
    ),
    (
        "fetch_box_4d",
        "void fetch_box_4d(unsigned int to, const TensorMap *map, unsigned int x, unsigned int y, \
         unsigned int z, unsigned int w, \
         unsigned int barrier) {\n\
         asm volatile(\"cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes \
         [%0], [%1, {%2, %3, %4, %5}], \
         [%6];\" :: \"r\"(to), \"l\"(map), \"r\"(x), \"r\"(y), \"r\"(z), \"r\"(w), \"r\"(barrier) : \"memory\");\n}",
    ),
    (
        "fetch_box_5d",
        "void fetch_box_5d(unsigned int to, const TensorMap *map, unsigned int x, unsigned int y, \
         unsigned int z, unsigned int w, unsigned int v, \
         unsigned int barrier) {\n\
         asm volatile(\"cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes \
         [%0], [%1, {%2, %3, %4, %5, %6}], \
         [%7];\" :: \"r\"(to), \"l\"(map), \"r\"(x), \"r\"(y), \"r\"(z), \"r\"(w), \"r\"(v), \"r\"(barrier) : \"memory\");\n}",
    ),
    (
        "give_registers",
        "template <int N> __device__ __forceinline__ void give_registers() {\n\
         asm volatile(\"setmaxnreg.dec.sync.aligned.u32 %0;\" :: \"n\"(N));\n}",
    ),
    (
        "take_registers",
        "template <int N> __device__ __forceinline__ void take_registers() {\n\
         asm volatile(\"setmaxnreg.inc.sync.aligned.u32 %0;\" :: \"n\"(N));\n}",
    ),
    (
        "publish_shared",
        "void publish_shared() {\nasm volatile(\"fence.proxy.async.shared::cta;\" ::: \"memory\");\n}",
    ),
    (
        "begin_products",
        "void begin_products() {\nasm volatile(\"wgmma.fence.sync.aligned;\" ::: \"memory\");\n}",
    ),
    (
        "end_products",
        "void end_products() {\nasm volatile(\"wgmma.commit_group.sync.aligned;\" ::: \"memory\");\n}",
    ),
    (
        "await_products",
        "template <int N> __device__ __forceinline__ void await_products() {\n\
         asm volatile(\"wgmma.wait_group.sync.aligned %0;\" :: \"n\"(N) : \"memory\");\n}",
    ),
    (
        "hold",
        "template <int N> __device__ __forceinline__ void hold(float (&x)[N]) {\n\
         #pragma unroll\n\
         for (int i = 0; i < N; i++) asm volatile(\"\" : \"+f\"(x[i]) :: \"memory\");\n}",
    ),
    (
        "matrix",
        "template <int GROUP, int BLOCK> __device__ __forceinline__ unsigned long long matrix(unsigned int at) {\n\
         return (at & 0x3FFFF) >> 4 | (unsigned long long)(BLOCK >> 4) << 16 | (unsigned long long)(GROUP >> 4) << 32 | \
         1ull << 62;\n}",
    ),
];

/// The tensor map of a launch, as the driver encodes it.
pub const TENSOR_MAP: &str = "struct alignas(64) TensorMap { unsigned long long words[16]; };\n";

/// The definition of a product.
pub fn definition(product: &WarpgroupProduct) -> String {
    let &WarpgroupProduct { columns, dtype, is_along, from_registers, .. } = product;
    let (signature, elem) = (product.signature(), product.element());
    let (step, n_sums) = (product.step(), product.n_sums());
    let [a, b] = is_along.map(|is_along| u8::from(!is_along));
    let transposed = match (dtype, from_registers) {
        (DType::F32, _) => String::new(),
        (_, true) => format!(", {b}"),
        (_, false) => format!(", {a}, {b}"),
    };
    let registers = list(n_sums, |i| format!("%{i}"));
    let sums = list(n_sums, |i| format!("\"+f\"(sum[{i}])"));
    let (n_words, words) = match from_registers {
        true => (4, list(4, |i| format!("\"r\"(a[{i}])"))),
        false => (1, "\"l\"(a)".to_string()),
    };
    let left = list(n_words, |i| format!("%{}", n_sums + i));
    let left = if from_registers { format!("{{{left}}}") } else { left };
    let (q, r) = (n_sums + n_words, n_sums + n_words + 1);
    format!(
        "{signature} {{\nasm volatile(\"{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{r}, 0;\\n\
         wgmma.mma_async.sync.aligned.m64n{columns}k{step}.f32.{elem}.{elem} {{{registers}}}, {left}, %{q}, p, 1, \
         1{transposed};\\n}}\"\n: {sums} : {words}, \"l\"(b), \"r\"(adds));\n}}"
    )
}
