//! The prelude of kernels on tensor cores: all inline PTX of copies, barriers and products.
//!
//! A schedule writes the frame of such a kernel as lines of CUDA C++. The printer puts the definitions of the called
//! functions before the kernel. A host compiler supplies its own definitions; those of products forward to one
//! reference.

use crate::ir::DType;
use std::fmt::Write;

/// Name and definition of each function. A function comes after those that it calls.
const FUNCTIONS: &[(&str, &str)] = &[
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

/// The tensor map of a launch, as the driver encodes it.
const TENSOR_MAP: &str = "struct alignas(64) TensorMap { unsigned long long words[16]; };\n";

/// A product of a warpgroup: 64 rows of the left matrix with some columns of the right one, which is in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WarpgroupProduct {
    /// Columns of the result, a multiple of 8 up to 256.
    pub columns: usize,
    /// Element type of both matrices.
    pub dtype: DType,
    /// For each matrix, whether neighbours in memory are neighbours along the contracted axis.
    pub is_along: [bool; 2],
    /// Whether the left matrix is in registers, four words of each thread for a step, and not in shared memory.
    pub from_registers: bool,
}

impl WarpgroupProduct {
    /// Name of the function that adds the product of one step to `float (&sum)[columns / 2]`.
    pub fn name(&self) -> String {
        let [a, b] = self.is_along.map(|is_along| if is_along { "k" } else { "m" });
        let a = if self.from_registers { "r" } else { a };
        format!("product_{}_{}_{a}{b}", self.dtype, self.columns)
    }

    /// Elements of the contracted axis in one step: 32 bytes.
    pub fn step(&self) -> usize {
        32 / self.dtype.size()
    }

    /// The definition for the device, then that for a host.
    fn definition(&self) -> [String; 2] {
        let &WarpgroupProduct { columns, dtype, is_along, from_registers } = self;
        let (name, step, n_sums) = (self.name(), self.step(), columns / 2);
        let left = if from_registers { "const unsigned int *a" } else { "unsigned long long a" };
        let signature =
            format!("void {name}(float (&sum)[{n_sums}], {left}, unsigned long long b, int adds)");
        let elem = if dtype == DType::F32 { "tf32".to_string() } else { dtype.to_string() };
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
        let device = format!(
            "{signature} {{\nasm volatile(\"{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{r}, 0;\\n\
             wgmma.mma_async.sync.aligned.m64n{columns}k{step}.f32.{elem}.{elem} {{{registers}}}, {left}, %{q}, p, 1, \
             1{transposed};\\n}}\"\n: {sums} : {words}, \"l\"(b), \"r\"(adds));\n}}"
        );
        let of_host = match dtype {
            DType::F32 => "float",
            DType::F16 => "__half",
            _ => "__nv_bfloat16",
        };
        let [a, b] = is_along;
        let body = match from_registers {
            true => format!("reference_product_of_words<{of_host}, {columns}, {b}>(sum, a, b, adds);"),
            false => format!("reference_product<{of_host}, {columns}, {a}, {b}>(sum, a, b, adds);"),
        };
        [device, format!("static {signature} {{ {body} }}")]
    }
}

fn list(n: usize, item: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    for i in 0..n {
        let separator = if i == 0 { "" } else { ", " };
        let _ = write!(text, "{separator}{}", item(i));
    }
    text
}

/// The definitions of the functions that `text` calls, for the device and for a host.
pub fn definitions(text: &str, products: &[WarpgroupProduct]) -> [String; 2] {
    let is_called = |name: &str| text.contains(&format!("{name}(")) || text.contains(&format!("{name}<"));
    let mut texts = [String::new(), String::new()];
    if text.contains("&map_") {
        texts[0] += TENSOR_MAP;
    }
    for (_, definition) in FUNCTIONS.iter().filter(|(name, _)| is_called(name)) {
        let before = if definition.starts_with("template") { "" } else { INLINE };
        texts[0] += &format!("{before}{definition}\n");
    }
    for product in products {
        let [device, host] = product.definition();
        texts[0] += &format!("{INLINE}{device}\n");
        texts[1] += &format!("{host}\n");
    }
    texts
}

const INLINE: &str = "__device__ __forceinline__ ";
