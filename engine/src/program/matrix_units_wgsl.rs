//! The WGSL of matmuls on matrix units (`VK_KHR_cooperative_matrix`): a subgroup holds and multiplies `f16` tiles of 16 × 16.
//!
//! CubeCL generates no cooperative matrices, so the WGSL is written here. The result goes to the workspace in `f32`, and
//! an epilogue kernel reads it there.

use super::library::MatmulCall;
use super::matrix_units::{Block, GAP, PLANE, Slice, slices};
use std::fmt::Write;

/// The side of a tile.
const SQUARE: usize = 16;
/// The number of halves in a vector load.
const VECTOR: usize = 8;

/// The name of the entry point.
pub const ENTRY: &str = "product";

/// The text of a matmul, and its bytes of shared memory. Its buffers are the factors and the result. `None` if the
/// matrices do not fit the block.
pub fn text(block: &Block, call: &MatmulCall) -> Option<(String, usize)> {
    Printer { block, call }.text()
}

/// The translation of a matmul to WGSL.
struct Printer<'b> {
    block: &'b Block,
    call: &'b MatmulCall,
}

impl Printer<'_> {
    fn text(&self) -> Option<(String, usize)> {
        let slices = slices(&self.call.lhs, &self.call.rhs)?;
        let mut text = String::from("enable f16;\nenable wgpu_cooperative_matrix;\n");
        let mut shared_bytes = 0;
        for (binding, slice) in slices.iter().enumerate() {
            let words = self.block.words(slice, self.block.sides[binding]);
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
        self.body(&mut text, &slices);
        Some((text, shared_bytes))
    }

    fn body(&self, text: &mut String, slices: &[Slice; 2]) {
        let MatmulCall { m, n, k, .. } = *self.call;
        let ([rows, columns], depth) = (self.block.sides, self.block.depth);
        let across = columns / self.block.plane[1];
        let squares = self.block.plane.map(|extent| extent / SQUARE);
        let all = || (0..squares[0]).flat_map(|i| (0..squares[1]).map(move |j| (i, j)));
        let _ = writeln!(
            text,
            "@compute @workgroup_size({}, 1, 1)\n\
             fn {ENTRY}(@builtin(local_invocation_index) unit: u32, @builtin(workgroup_id) block: vec3<u32>) {{\n\
             let plane_row = unit / {}u * {}u;\nlet plane_column = unit / {PLANE}u % {across}u * {}u;\n\
             let row = block.y * {rows}u;\nlet column = block.x * {columns}u;",
            self.block.threads(),
            PLANE * across,
            self.block.plane[0],
            self.block.plane[1],
        );
        for (i, j) in all() {
            let _ = writeln!(text, "var sum_{i}_{j} = coop_mat16x16<f32, C>();");
        }
        for (slice, side) in slices.iter().zip(self.block.sides) {
            for round in 0..self.rounds(slice, side) {
                let _ = writeln!(text, "var {}_{round}: vec4<u32>;", slice.name);
            }
        }
        // Double buffering: the next slices are loaded to registers while the present ones are multiplied.
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

    /// The number of vectors of a slice that a thread copies.
    fn rounds(&self, slice: &Slice, side: usize) -> usize {
        let [rows, neighbours] = self.block.extents(slice, side);
        rows * neighbours / VECTOR / self.block.threads()
    }

    fn fetch(&self, text: &mut String, slices: &[Slice; 2], along: &str) {
        for ((slice, side), corner) in slices.iter().zip(self.block.sides).zip(["row", "column"]) {
            let Slice { matrix, name, is_along, pitch } = slice;
            let [_, neighbours] = self.block.extents(slice, side);
            let per_row = neighbours / VECTOR;
            let (of_rows, of_neighbours) = if *is_along { (corner, along) } else { (along, corner) };
            for round in 0..self.rounds(slice, side) {
                let number = format!("(unit + {}u)", round * self.block.threads());
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
        for (slice, side) in slices.iter().zip(self.block.sides) {
            let name = slice.name;
            let [_, neighbours] = self.block.extents(slice, side);
            let (per_row, pitch) = (neighbours / VECTOR, (neighbours + GAP) / 4);
            for round in 0..self.rounds(slice, side) {
                let number = format!("(unit + {}u)", round * self.block.threads());
                let place = format!("{number} / {per_row}u * {pitch}u + {number} % {per_row}u * 2u");
                let _ = writeln!(
                    text,
                    "{name}_slice[{place}] = halves({name}_{round}.xy);\n\
                     {name}_slice[{place} + 1u] = halves({name}_{round}.zw);"
                );
            }
        }
    }

    /// The products of tiles at one position along the slices.
    fn multiply(&self, text: &mut String, slices: &[Slice; 2], start: usize, squares: [usize; 2]) {
        text.push_str("{\n");
        for (axis, role, corner) in [(0, "A", "plane_row"), (1, "B", "plane_column")] {
            let slice = &slices[axis];
            let pitch = (self.block.extents(slice, self.block.sides[axis])[1] + GAP) / 4;
            // Rows of the left matrix lie across the slice, rows of the right one along it.
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
