//! Products of pairs of bf16 on the tiles of AMX: matrices of up to 16 rows of 64 bytes, which one instruction multiplies.
//!
//! A packed strip of B has the layout that the instruction wants, and so do rows of A whose pairs are neighbours. Numbers
//! below 2⁻¹²⁶ count as zeros there, in factors and in sums.

use super::matrix::Matrix;
use std::arch::asm;
use std::sync::LazyLock;

/// The rows of a tile, and the pairs or sums in one of them.
const TILE: usize = 16;

/// Whether this machine has AMX, and the kernel lets this process use it.
pub(super) fn is_present() -> bool {
    static PRESENT: LazyLock<bool> = LazyLock::new(detect);
    *PRESENT
}

#[cfg(target_os = "linux")]
fn detect() -> bool {
    /// The request of `arch_prctl` for a component of the processor's state, and that of tiles.
    const REQUEST: i32 = 0x1023;
    const TILES: i32 = 18;
    // Bits of `cpuid`: AMX-BF16 and AMX-TILE.
    let has_bits = std::arch::x86_64::__cpuid_count(7, 0).edx >> 22 & 0b101 == 0b101;
    // SAFETY: a call without pointers.
    has_bits && unsafe { libc::syscall(libc::SYS_arch_prctl, REQUEST, TILES) } == 0
}

#[cfg(not(target_os = "linux"))]
fn detect() -> bool {
    false
}

/// A packed strip of B, and where its products with A belong.
pub(super) struct Strip<'a> {
    /// The rows of A along the strip. Pairs of a row are neighbours.
    pub a: Matrix<'a, f32>,
    /// `a.n_columns` rows of `width` pairs.
    pub strip: *const f32,
    pub width: usize,
    /// The columns that are there.
    pub n_columns: usize,
    pub out: *mut f32,
    pub out_stride: usize,
    /// Whether products are not added to what is there.
    pub is_first: bool,
}

impl Strip<'_> {
    /// Multiplies.
    ///
    /// # Safety
    /// The machine must have AMX, `strip` must be valid for the rows of the strip, and `out` for `a.n_rows` rows of
    /// `n_columns` sums.
    #[inline(never)]
    pub unsafe fn run(&self) {
        let [n_rows, run] = self.a.shape();
        // SAFETY: the caller's; parts are within the matrices.
        unsafe {
            for column in (0..self.n_columns).step_by(2 * TILE) {
                let n_columns = (self.n_columns - column).min(2 * TILE);
                // Pairs that fill a tile, and the rest.
                for (depth, n_pairs) in parts(run, TILE) {
                    let pairs = n_pairs.min(TILE);
                    for (row, rows) in parts(n_rows, 2 * TILE) {
                        Config::new(rows.min(2 * TILE), n_columns, pairs).load();
                        let is_first = self.is_first && depth == 0;
                        self.run_rows([row, rows], [column, n_columns], [depth, n_pairs / pairs], is_first);
                    }
                }
            }
            asm!("tilerelease", options(nostack, preserves_flags, nomem));
        }
    }

    /// Multiplies rows in blocks of the same configuration.
    #[inline(always)]
    unsafe fn run_rows(
        &self,
        [first, n_rows]: [usize; 2],
        [column, n_columns]: [usize; 2],
        [depth, n_steps]: [usize; 2],
        is_first: bool,
    ) {
        let [a_stride, b_stride] = [4 * self.a.strides()[0], 4 * self.width as isize];
        for row in (first..first + n_rows).step_by(2 * TILE) {
            let block = Block {
                a: self.a.at(row, depth).cast(),
                a_stride,
                b: self.strip.wrapping_add(depth * self.width + column).cast(),
                b_stride,
                n_steps,
                out: self.out.wrapping_add(row * self.out_stride + column).cast(),
                out_stride: 4 * self.out_stride as isize,
                is_first,
            };
            // SAFETY: the caller's.
            unsafe {
                match (n_rows.min(2 * TILE) > TILE, n_columns > TILE) {
                    (true, true) => block.run::<true, true>(),
                    (true, false) => block.run::<true, false>(),
                    (false, true) => block.run::<false, true>(),
                    (false, false) => block.run::<false, false>(),
                }
            }
        }
    }
}

/// The whole multiples of `unit` in `0..n`, and the rest: first and length of each that is not empty.
fn parts(n: usize, unit: usize) -> impl Iterator<Item = (usize, usize)> {
    let whole = n / unit * unit;
    [(0, whole), (whole, n - whole)].into_iter().filter(|(_, length)| *length > 0)
}

/// What two tiles hold of so many rows or columns, with the number of the tile; none is empty.
fn halves(n: usize) -> impl Iterator<Item = (usize, usize)> {
    [n.min(TILE), n.saturating_sub(TILE)].into_iter().enumerate().filter(|(_, count)| *count > 0)
}

/// The shapes of tiles: sums 0 to 3, rows of A in 4 and 5, columns of B in 6 and 7.
#[repr(C, align(64))]
struct Config {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    n_rows: [u8; 16],
}

impl Config {
    /// Two tiles side by side for up to 32 rows, and for up to 32 columns. Tiles without rows or columns are not used.
    fn new(n_rows: usize, n_columns: usize, n_pairs: usize) -> Config {
        let mut config =
            Config { palette: 1, start_row: 0, reserved: [0; 14], row_bytes: [0; 16], n_rows: [0; 16] };
        let mut set = |tile: usize, rows: usize, columns: usize| {
            config.row_bytes[tile] = 4 * columns as u16;
            config.n_rows[tile] = rows as u8;
        };
        for (i, rows) in halves(n_rows) {
            set(4 + i, rows, n_pairs);
            for (j, columns) in halves(n_columns) {
                set(2 * i + j, rows, columns);
            }
        }
        for (j, columns) in halves(n_columns) {
            set(6 + j, n_pairs, columns);
        }
        config
    }

    #[inline(always)]
    unsafe fn load(&self) {
        // SAFETY: the caller's; the configuration is valid, and its tiles are cleared.
        unsafe { asm!("ldtilecfg [{}]", in(reg) self, options(nostack, preserves_flags, readonly)) };
    }
}

/// Up to 32 × 32 sums. Strides are bytes.
struct Block {
    a: *const u8,
    a_stride: isize,
    b: *const u8,
    b_stride: isize,
    n_steps: usize,
    out: *mut u8,
    out_stride: isize,
    is_first: bool,
}

// The compiler itself uses no tile, so they keep their contents from one statement to the next.
macro_rules! load {
    ($tile:literal, $at:expr, $stride:expr) => {
        asm!(concat!("tileloadd tmm", $tile, ", [{} + {}]"), in(reg) $at, in(reg) $stride,
            options(nostack, preserves_flags, readonly))
    };
}
macro_rules! store {
    ($tile:literal, $at:expr, $stride:expr) => {
        asm!(concat!("tilestored [{} + {}], tmm", $tile), in(reg) $at, in(reg) $stride,
            options(nostack, preserves_flags))
    };
}
macro_rules! multiply {
    ($sums:literal, $a:literal, $b:literal) => {
        asm!(
            concat!("tdpbf16ps tmm", $sums, ", tmm", $a, ", tmm", $b),
            options(nostack, preserves_flags, nomem)
        )
    };
}
macro_rules! clear {
    ($tile:literal, $at:expr, $stride:expr) => {
        asm!(concat!("tilezero tmm", $tile), options(nostack, preserves_flags, nomem))
    };
}

/// An instruction for each tile of sums that is there.
macro_rules! for_sums {
    ($instruction:ident, $places:expr, $stride:expr) => {
        $instruction!(0, $places[0], $stride);
        if COLUMNS {
            $instruction!(1, $places[1], $stride);
        }
        if ROWS {
            $instruction!(2, $places[2], $stride);
        }
        if ROWS && COLUMNS {
            $instruction!(3, $places[3], $stride);
        }
    };
}

impl Block {
    /// Adds the products of the configured tiles: a second one of rows, a second one of columns.
    #[inline(always)]
    unsafe fn run<const ROWS: bool, const COLUMNS: bool>(self) {
        let Block { mut a, a_stride, mut b, b_stride, n_steps, out, out_stride, is_first } = self;
        let below = |at: *const u8, stride: isize| at.wrapping_offset(TILE as isize * stride);
        let next = |at: *const u8| at.wrapping_add(4 * TILE);
        let out_below = below(out, out_stride);
        let places = [out.cast_const(), next(out), out_below, next(out_below)].map(<*const u8>::cast_mut);
        // SAFETY: the caller's: a valid configuration, and matrices of these shapes.
        unsafe {
            if is_first {
                for_sums!(clear, places, out_stride);
            } else {
                for_sums!(load, places, out_stride);
            }
            for _ in 0..n_steps {
                load!(6, b, b_stride);
                load!(4, a, a_stride);
                multiply!(0, 4, 6);
                if ROWS {
                    load!(5, below(a, a_stride), a_stride);
                    multiply!(2, 5, 6);
                }
                if COLUMNS {
                    load!(7, next(b), b_stride);
                    multiply!(1, 4, 7);
                }
                if ROWS && COLUMNS {
                    multiply!(3, 5, 7);
                }
                (a, b) = (next(a), below(b, b_stride));
            }
            for_sums!(store, places, out_stride);
        }
    }
}
