//! Products of single warps (`mma.sync`) and copies by threads (`cp.async`): NVIDIA GPUs from Ampere on.
//!
//! A warpgroup's product is made of those of its warps, 16 rows of each 64. Tiles, sums and words lie as for `wgmma`, whose
//! layouts are those of `mma.sync` in each warp. Matrices in shared memory are read in blocks of eight lines by 16 bytes.

use super::product::{Function, WarpgroupProduct, list};

pub const FUNCTIONS: &[Function] = &[
    ("publish_barriers", "void publish_barriers() {}"),
    (
        "arrive",
        "void arrive(unsigned int barrier) {\n\
         asm volatile(\"{\\n.reg .b64 state;\\nmbarrier.arrive.shared.b64 state, [%0];\\n}\" :: \"r\"(barrier) : \
         \"memory\");\n}",
    ),
    (
        "arrive_after_copies",
        "void arrive_after_copies(unsigned int barrier) {\n\
         asm volatile(\"cp.async.mbarrier.arrive.noinc.shared.b64 [%0];\" :: \"r\"(barrier) : \"memory\");\n}",
    ),
    (
        "await_phase",
        "void await_phase(unsigned int barrier, unsigned int parity) {\n\
         asm volatile(\"{\\n.reg .pred p;\\nagain:\\nmbarrier.test_wait.parity.shared.b64 p, [%0], %1;\\n@!p bra \
         again;\\n}\" :: \"r\"(barrier), \"r\"(parity) : \"memory\");\n}",
    ),
    ("swizzled", "unsigned int swizzled(unsigned int at) {\nreturn at ^ (at >> 3 & 0x70);\n}"),
    (
        "copy_part",
        "void copy_part(unsigned int to, const void *from, int n_bytes) {\n\
         asm volatile(\"cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;\" :: \"r\"(to), \"l\"(from), \"r\"(n_bytes) : \
         \"memory\");\n}",
    ),
    ("copy_box", COPY_BOX),
    ("load_blocks", LOAD_BLOCKS),
    ("matrix", MATRIX),
    ("place", PLACE),
    (
        "load_left",
        "void load_left(unsigned int *x, unsigned long long a) {\n\
         const unsigned int lane = threadIdx.x % 32;\n\
         unsigned int blocks[4];\n\
         load_blocks<false>(blocks, place<true>(a, threadIdx.x % 128 / 32 * 16 + lane % 16, lane / 16));\n\
         #pragma unroll\n\
         for (int i = 0; i < 4; i++) x[i] = blocks[i];\n}",
    ),
    ("publish_shared", "void publish_shared() {}"),
    ("begin_products", "void begin_products() {}"),
    ("end_products", "void end_products() {}"),
    ("await_products", "template <int N> __device__ __forceinline__ void await_products() {}"),
    ("hold", "template <int N> __device__ __forceinline__ void hold(float (&)[N]) {}"),
];

/// A tensor map, whose box a warpgroup copies. Its extents are along memory, across, and of further axes.
pub const TENSOR_MAP: &str = "\
struct TensorMap { const void *first; unsigned int size; unsigned long long extents[5], strides[4]; unsigned int box[2]; };
";

/// Each thread copies 16 bytes of every 16th line of 128 bytes. Bytes beyond the tensor are zeros.
const COPY_BOX: &str = "\
void copy_box(unsigned int to, const TensorMap &map, unsigned int x, unsigned int y, unsigned int z, unsigned int w, \
unsigned int v) {
const unsigned int part = threadIdx.x % 8, column = x + part * (16 / map.size);
const int n_inside = min(max((int)map.extents[0] - (int)column, 0), (int)(16 / map.size)) * map.size;
const unsigned long long start = z * map.strides[1] + w * map.strides[2] + v * map.strides[3] + column;
#pragma unroll
for (unsigned int i = 0; i < map.box[1]; i += 16) {
const unsigned int line = i + threadIdx.x % 128 / 8, row = y + line;
const int n_bytes = row < map.extents[1] ? n_inside : 0;
const unsigned long long element = n_bytes ? start + row * map.strides[0] : 0;
if (line < map.box[1])
copy_part(swizzled(to + line * 128 + part * 16), (const char *)map.first + element * map.size, n_bytes);
}
}";

/// Four blocks of eight lines by 16 bytes. Each thread gives the place of a line, and gets a word of each block.
const LOAD_BLOCKS: &str = "\
template <bool IS_TRANSPOSED> __device__ __forceinline__ void load_blocks(unsigned int (&x)[4], unsigned int at) {
if (IS_TRANSPOSED)
asm volatile(\"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\"
: \"=r\"(x[0]), \"=r\"(x[1]), \"=r\"(x[2]), \"=r\"(x[3]) : \"r\"(at) : \"memory\");
else
asm volatile(\"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\"
: \"=r\"(x[0]), \"=r\"(x[1]), \"=r\"(x[2]), \"=r\"(x[3]) : \"r\"(at) : \"memory\");
}";

/// A matrix in shared memory: its start, and the bytes between blocks of 64 lines that lie along memory.
const MATRIX: &str = "\
template <int GROUP, int BLOCK> __device__ __forceinline__ unsigned long long matrix(unsigned int at) {
return at | (unsigned long long)BLOCK << 32;
}";

/// The place of a line and of a part of 16 bytes along the contracted axis, or of eight lines and an element along it.
/// A start is a multiple of 1,024 up to its step along the contracted axis, so multiples of 1,024 are no part of the swizzle.
const PLACE: &str = "\
template <bool IS_ALONG> __device__ __forceinline__ unsigned int place(unsigned long long matrix, unsigned int line, \
unsigned int k) {
const unsigned int start = (unsigned int)matrix, block = (unsigned int)(matrix >> 32);
if (IS_ALONG) return swizzled(start + line % 16 * 128 + k * 16) + line / 16 * 2048;
return swizzled(start + k * 128 + line % 64 * 2) + line / 64 * block;
}";

/// The definition of a product: all of the left matrix, then 16 columns of the right one at a time.
pub fn definition(product: &WarpgroupProduct) -> String {
    let &WarpgroupProduct { n_parts, columns, is_along, from_registers, .. } = product;
    let [a, b] = is_along;
    let sum = if n_parts == 1 { "sum" } else { "sum[part]" };
    let signature = product.signature();
    let left = match from_registers {
        true => "for (int i = 0; i < 4; i++) left[0][i] = a[i];\n".to_string(),
        false => {
            let (line, k) =
                if a { ("lane % 16", "lane / 16") } else { ("lane / 8 % 2 * 8", "lane % 8 + lane / 16 * 8") };
            format!(
                "for (int part = 0; part < {n_parts}; part++)\n\
                 load_blocks<{}>(left[part], place<{a}>(a, 64 * part + threadIdx.x % 128 / 32 * 16 + {line}, {k}));\n",
                !a
            )
        }
    };
    let (line, k) =
        if b { ("lane % 8 + lane / 16 * 8", "lane / 8 % 2") } else { ("lane / 16 * 8", "lane % 16") };
    format!(
        "\
{signature} {{
const unsigned int lane = threadIdx.x % 32;
unsigned int left[{n_parts}][4], right[4];
#pragma unroll
{left}\
if (!adds) {{
#pragma unroll
for (int part = 0; part < {n_parts}; part++)
#pragma unroll
for (int i = 0; i < {n_sums}; i++) {sum}[i] = 0.0f;
}}
#pragma unroll
for (int j = 0; j < {n_steps}; j++) {{
load_blocks<{transposed}>(right, place<{b}>(b, 16 * j + {line}, {k}));
#pragma unroll
for (int part = 0; part < {n_parts}; part++) {{
{first}\
{second}\
}}
}}
}}",
        n_sums = product.n_sums(),
        n_steps = columns / 16,
        transposed = !b,
        first = of_columns(product, sum, 0),
        second = of_columns(product, sum, 1),
    )
}

/// The instruction for eight columns, the first or second of 16.
fn of_columns(product: &WarpgroupProduct, sum: &str, half: usize) -> String {
    let (elem, depth) = (product.element(), product.step());
    let sums = list(4, |i| format!("\"+f\"({sum}[8 * j + {}])", 4 * half + i));
    let left = list(4, |i| format!("\"r\"(left[part][{i}])"));
    let right = list(2, |i| format!("\"r\"(right[{}])", 2 * half + i));
    format!(
        "asm volatile(\"mma.sync.aligned.m16n8k{depth}.row.col.f32.{elem}.{elem}.f32 {{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, \
         {{%8, %9}}, {{%0, %1, %2, %3}};\"\n: {sums} : {left}, {right});\n"
    )
}
