//! Products on matrix units, where a GPU has them for halves: the threads of a plane hold squares of 16 by 16 together and
//! multiply them at once (`VK_KHR_cooperative_matrix`). CubeCL prints no such WGSL, so the text is made here. The result
//! goes to the scratch in `f32`, where the epilogue finds it.

use super::compile::Source;
use engine_core::fusion::{Kernel, KernelBody, MatmulBody, MatrixOperand};
use engine_core::ir::DType;
use std::fmt::Write;

/// How a product is cut into blocks of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// Rows and columns of the result.
    sides: [usize; 2],
    /// Length of the slices of the contracted axis.
    depth: usize,
    /// Rows and columns of a plane.
    plane: [usize; 2],
}

/// Side of a square.
const SQUARE: usize = 16;
/// Threads of a plane.
pub const PLANE: usize = 32;
/// Halves that are read at once.
const VECTOR: usize = 8;
/// Halves between the rows of a slice, so that rows do not fall on the same banks.
const GAP: usize = 8;

/// What is worth trying, the most likely first.
const BLOCKS: [Block; 4] = [
    Block { sides: [128, 128], depth: 32, plane: [64, 64] },
    Block { sides: [128, 128], depth: 32, plane: [64, 32] },
    Block { sides: [64, 128], depth: 32, plane: [32, 64] },
    Block { sides: [64, 64], depth: 32, plane: [32, 32] },
];

/// The blocks that a kernel's product can be cut into without a rest, and that a GPU has room for; none if it is no product
/// of halves.
pub fn blocks(kernel: &Kernel, limits: &wgpu::Limits) -> Vec<Block> {
    let KernelBody::Matmul(body) = &kernel.body else { return vec![] };
    // Checks run before anything is multiplied, and would look at the product.
    let Some(slices) = slices(body) else { return vec![] };
    if body.dtype != DType::F16 || body.epilogue.has_checks() || body.rows.is_some() {
        return vec![];
    }
    let is_whole = |block: &Block| {
        let [rows, columns] = block.sides;
        body.m.is_multiple_of(rows) && body.n.is_multiple_of(columns) && body.k.is_multiple_of(block.depth)
    };
    let fits = |block: &Block| is_whole(block) && block.fits(body, &slices, limits);
    BLOCKS.into_iter().filter(fits).collect()
}

/// A matrix, as slices of it are copied.
struct Slice {
    matrix: MatrixOperand,
    name: &'static str,
    /// Whether neighbours in memory are neighbours along the contracted axis.
    is_along: bool,
    /// From one row of neighbours to the next.
    pitch: i64,
}

/// Both matrices, if their neighbours are read at once.
fn slices(body: &MatmulBody) -> Option<[Slice; 2]> {
    let slice = |matrix: MatrixOperand, name, across: i64, along: i64| {
        let is_along = along == 1;
        let pitch = if is_along { across } else { along };
        let is_even = |distance: i64| distance.rem_euclid(VECTOR as i64) == 0;
        let is_dense = is_along || across == 1;
        let is_fit = is_dense && [pitch, matrix.batch, matrix.offset].into_iter().all(is_even) && pitch > 0;
        is_fit.then_some(Slice { matrix, name, is_along, pitch })
    };
    let (lhs, rhs) = (body.lhs, body.rhs);
    Some([slice(lhs, "lhs", lhs.row, lhs.col)?, slice(rhs, "rhs", rhs.col, rhs.row)?])
}

impl Block {
    fn planes(&self) -> usize {
        self.sides[0] / self.plane[0] * (self.sides[1] / self.plane[1])
    }

    fn threads(&self) -> usize {
        PLANE * self.planes()
    }

    /// Extents of a slice: rows of neighbours, and neighbours.
    fn extents(&self, slice: &Slice, side: usize) -> [usize; 2] {
        if slice.is_along { [side, self.depth] } else { [self.depth, side] }
    }

    /// Blocks along each axis.
    pub fn grid(&self, body: &MatmulBody) -> [usize; 3] {
        [body.n / self.sides[1], body.m / self.sides[0], body.batch]
    }

    /// Whether a GPU takes its threads, what they share, and as many blocks.
    fn fits(&self, body: &MatmulBody, slices: &[Slice; 2], limits: &wgpu::Limits) -> bool {
        let most_threads =
            limits.max_compute_invocations_per_workgroup.min(limits.max_compute_workgroup_size_x);
        let words: usize = slices.iter().zip(self.sides).map(|(slice, side)| self.words(slice, side)).sum();
        let is_at_most = |n: usize, most: u32| n <= most as usize;
        is_at_most(self.threads(), most_threads)
            && is_at_most(8 * words, limits.max_compute_workgroup_storage_size)
            && self.grid(body).into_iter().all(|n| is_at_most(n, limits.max_compute_workgroups_per_dimension))
    }

    /// Words of four halves that a slice takes.
    fn words(&self, slice: &Slice, side: usize) -> usize {
        let [rows, neighbours] = self.extents(slice, side);
        rows * (neighbours + GAP) / 4
    }

    /// The text of a product; its buffers are the matrices and the result. None if the matrices do not fit.
    pub fn source(&self, body: &MatmulBody) -> Option<Source> {
        let slices = slices(body)?;
        let mut text = String::from("enable f16;\nenable wgpu_cooperative_matrix;\n");
        let mut shared_bytes = 0;
        for (binding, slice) in slices.iter().enumerate() {
            let words = self.words(slice, self.sides[binding]);
            shared_bytes += 8 * words;
            let name = slice.name;
            let _ = writeln!(
                text,
                "@group(0) @binding({binding}) var<storage, read_write> {name}: array<vec4<u32>>;\n\
                 var<workgroup> {name}_slice: array<vec4<f16>, {words}>;"
            );
        }
        text.push_str(
            "@group(0) @binding(2) var<storage, read_write> result: array<f32>;\n\
             fn halves(x: vec2<u32>) -> vec4<f16> {\n\
             return vec4<f16>(vec2<f16>(unpack2x16float(x.x)), vec2<f16>(unpack2x16float(x.y)));\n}\n",
        );
        self.body(&mut text, body, &slices);
        Some(Source { text, entry: "product".to_string(), n_buffers: 3, shared_bytes })
    }

    fn body(&self, text: &mut String, body: &MatmulBody, slices: &[Slice; 2]) {
        let MatmulBody { m, n, k, .. } = *body;
        let ([rows, columns], depth) = (self.sides, self.depth);
        let across = columns / self.plane[1];
        let squares = self.plane.map(|extent| extent / SQUARE);
        let all = || (0..squares[0]).flat_map(|i| (0..squares[1]).map(move |j| (i, j)));
        let _ = writeln!(
            text,
            "@compute @workgroup_size({}, 1, 1)\n\
             fn product(@builtin(local_invocation_index) unit: u32, @builtin(workgroup_id) block: vec3<u32>) {{\n\
             let plane_row = unit / {}u * {}u;\nlet plane_column = unit / {PLANE}u % {across}u * {}u;\n\
             let row = block.y * {rows}u;\nlet column = block.x * {columns}u;",
            self.threads(),
            PLANE * across,
            self.plane[0],
            self.plane[1],
        );
        for (i, j) in all() {
            let _ = writeln!(text, "var sum_{i}_{j} = coop_mat16x16<f32, C>();");
        }
        for (slice, side) in slices.iter().zip(self.sides) {
            for round in 0..self.rounds(slice, side) {
                let _ = writeln!(text, "var {}_{round}: vec4<u32>;", slice.name);
            }
        }
        // The next slices are on their way while these are multiplied.
        self.fetch(text, slices, "0u");
        let _ = writeln!(text, "for (var i = 0u; i < {k}u; i += {depth}u) {{\nworkgroupBarrier();");
        self.keep(text, slices);
        let _ =
            writeln!(text, "workgroupBarrier();\nlet next = select(0u, i + {depth}u, i + {depth}u < {k}u);");
        self.fetch(text, slices, "next");
        for start in (0..depth).step_by(SQUARE) {
            self.multiply(text, slices, start, squares);
        }
        text.push_str("}\n");
        let _ =
            writeln!(text, "let first = (block.z * {m}u + row + plane_row) * {n}u + column + plane_column;");
        for (i, j) in all() {
            let offset = i * SQUARE * n + j * SQUARE;
            let _ = writeln!(text, "coopStoreT(sum_{i}_{j}, &result[first + {offset}u], {n}u);");
        }
        text.push_str("}\n");
    }

    /// Vectors of a slice that a thread copies.
    fn rounds(&self, slice: &Slice, side: usize) -> usize {
        let [rows, neighbours] = self.extents(slice, side);
        rows * neighbours / VECTOR / self.threads()
    }

    fn fetch(&self, text: &mut String, slices: &[Slice; 2], along: &str) {
        for ((slice, side), corner) in slices.iter().zip(self.sides).zip(["row", "column"]) {
            let Slice { matrix, name, is_along, pitch } = slice;
            let [_, neighbours] = self.extents(slice, side);
            let per_row = neighbours / VECTOR;
            let (of_rows, of_neighbours) = if *is_along { (corner, along) } else { (along, corner) };
            for round in 0..self.rounds(slice, side) {
                let number = format!("(unit + {}u)", round * self.threads());
                let _ = writeln!(
                    text,
                    "{name}_{round} = {name}[(block.z * {}u + {}u + ({of_rows} + {number} / {per_row}u) * {pitch}u \
                     + {of_neighbours}) / {VECTOR}u + {number} % {per_row}u];",
                    matrix.batch, matrix.offset
                );
            }
        }
    }

    fn keep(&self, text: &mut String, slices: &[Slice; 2]) {
        for (slice, side) in slices.iter().zip(self.sides) {
            let name = slice.name;
            let [_, neighbours] = self.extents(slice, side);
            let (per_row, pitch) = (neighbours / VECTOR, (neighbours + GAP) / 4);
            for round in 0..self.rounds(slice, side) {
                let number = format!("(unit + {}u)", round * self.threads());
                let place = format!("{number} / {per_row}u * {pitch}u + {number} % {per_row}u * 2u");
                let _ = writeln!(
                    text,
                    "{name}_slice[{place}] = halves({name}_{round}.xy);\n\
                     {name}_slice[{place} + 1u] = halves({name}_{round}.zw);"
                );
            }
        }
    }

    /// The products of the squares at some place along the slices.
    fn multiply(&self, text: &mut String, slices: &[Slice; 2], start: usize, squares: [usize; 2]) {
        text.push_str("{\n");
        for (axis, role, corner) in [(0, "A", "plane_row"), (1, "B", "plane_column")] {
            let slice = &slices[axis];
            let pitch = (self.extents(slice, self.sides[axis])[1] + GAP) / 4;
            // Rows of the left matrix go across the slice, those of the right one along it.
            let load = if slice.is_along == (axis == 0) { "coopLoadT" } else { "coopLoad" };
            for square in 0..squares[axis] {
                let across = square * SQUARE;
                let place = match slice.is_along {
                    true => format!("({corner} + {across}u) * {pitch}u + {}u", start / 4),
                    false => format!("{}u + ({corner} + {across}u) / 4u", start * pitch),
                };
                let name = slice.name;
                let _ = writeln!(
                    text,
                    "let {name}{square} = {load}<coop_mat16x16<f16, {role}>>(&{name}_slice[{place}], {pitch}u);"
                );
            }
        }
        for (i, j) in (0..squares[0]).flat_map(|i| (0..squares[1]).map(move |j| (i, j))) {
            let _ = writeln!(text, "sum_{i}_{j} = coopMultiplyAdd(lhs{i}, rhs{j}, sum_{i}_{j});");
        }
        text.push_str("}\n");
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use naga::valid::{Capabilities, ValidationFlags, Validator};

    /// There is no such GPU here, but a compiler.
    #[test]
    fn texts_are_valid() {
        for (is_lhs_along, is_rhs_along) in [(true, false), (true, true), (false, false), (false, true)] {
            let matrix = |operand, is_along: bool, is_lhs: bool, across: i64, along: i64| {
                let strides = if is_along { [along, 1] } else { [1, across] };
                let [row, col] = if is_lhs { strides } else { [strides[1], strides[0]] };
                MatrixOperand { operand, offset: 8, batch: 256 * 512, row, col }
            };
            let body = MatmulBody {
                batch: 3,
                m: 256,
                n: 128,
                k: 512,
                lhs: matrix(0, is_lhs_along, true, 256, 512),
                rhs: matrix(1, is_rhs_along, false, 128, 512),
                dtype: DType::F16,
                epilogue: engine_core::fusion::FusedBody {
                    domain: engine_core::fusion::Domain { outer: 3 * 256, row: 128, inner: 1 },
                    insts: vec![],
                },
                side_sums: vec![],
                rows: None,
            };
            for block in BLOCKS {
                let source = block.source(&body).unwrap();
                let options = naga::front::wgsl::Options {
                    parse_doc_comments: false,
                    capabilities: Capabilities::all(),
                };
                let module = naga::front::wgsl::Frontend::new_with_options(options).parse(&source.text);
                let module = module.unwrap_or_else(|error| panic!("{}", error.emit_to_string(&source.text)));
                let info = Validator::new(ValidationFlags::all(), Capabilities::all()).validate(&module);
                let info = info.unwrap_or_else(|error| panic!("{}", error.emit_to_string(&source.text)));
                naga::back::spv::write_vec(&module, &info, &naga::back::spv::Options::default(), None)
                    .unwrap();
                assert!(source.shared_bytes <= 32 << 10);
                assert_eq!(block.grid(&body), [128 / block.sides[1], 256 / block.sides[0], 3]);
            }
        }
    }
}
