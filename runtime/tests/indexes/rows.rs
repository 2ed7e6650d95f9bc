//! Rows that are hard to tell apart, and queries among them.

use engine_runtime::philox::WordStream;

/// Drawn numbers.
pub struct Random(WordStream);

impl Random {
    /// The numbers of a test.
    pub fn new(domain: u32) -> Random {
        Random(WordStream::new(crate::setting("ENGINE_INDEX_SEED").unwrap_or(0) as u64, domain, 0))
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound as u32) as usize
    }

    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// A nearly normal number: twelve uniform ones, less their mean.
    pub fn normal(&mut self) -> f32 {
        let sum: f64 = (0..12).map(|_| f64::from(self.0.word()) / 2f64.powi(32)).sum();
        (sum - 6.0) as f32
    }

    fn normals(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.normal()).collect()
    }
}

/// How rows are hard.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Normal,
    /// Far from the origin, with small differences.
    Far,
    /// As far, with differences of few units in the last place.
    FarTies,
    /// Rows of one vector.
    Equal,
    /// A third of the rows are zeros, a third are ones.
    WithZeros,
    Zeros,
    /// Numbers below the normal range of `f32`.
    Subnormal,
    /// Squares vanish in `f32`, or lose digits.
    Tiny,
    /// Squares come near the end of `f32`.
    Large,
    /// Small whole numbers, many of which are equally far from a query.
    Whole,
    /// Few groups of rows that are near each other.
    Groups,
    /// One vector with its signs changed, and perhaps one number moved by a unit in the last place.
    Shell,
    /// Numbers that bf16 and TF32 round by nearly as much as they can.
    Halfway,
}

impl Kind {
    pub const ALL: [Kind; 13] = [
        Kind::Normal,
        Kind::Far,
        Kind::FarTies,
        Kind::Equal,
        Kind::WithZeros,
        Kind::Zeros,
        Kind::Subnormal,
        Kind::Tiny,
        Kind::Large,
        Kind::Whole,
        Kind::Groups,
        Kind::Shell,
        Kind::Halfway,
    ];

    /// `n` rows of `d` numbers.
    pub fn rows(self, random: &mut Random, [n, d]: [usize; 2]) -> Vec<f32> {
        let base = random.normals(d);
        let centres = random.normals(8 * d);
        let row = |random: &mut Random, at: usize| -> Vec<f32> {
            match self {
                Kind::Equal => base.clone(),
                Kind::Zeros => vec![0.0; d],
                Kind::WithZeros if at % 3 < 2 => vec![(at % 3) as f32; d],
                Kind::Groups => {
                    let centre = random.below(8);
                    centres[centre * d..][..d].iter().map(|x| x + 0.01 * random.normal()).collect()
                }
                Kind::Shell => shell(random, &base),
                _ => (0..d).map(|_| self.number(random)).collect(),
            }
        };
        (0..n).flat_map(|at| row(random, at)).collect()
    }

    fn number(self, random: &mut Random) -> f32 {
        let normal = random.normal();
        match self {
            Kind::Far => 1e4 + 1e-3 * normal,
            Kind::FarTies => f32::from_bits(1e4f32.to_bits() + random.below(4) as u32),
            Kind::Subnormal => 1e-41 * normal,
            Kind::Tiny => normal * random.pick(&[1e-17, 1e-19, 1e-20, 1e-22, 1e-25]),
            Kind::Large => 1e15 * normal * normal * normal,
            Kind::Whole => normal.round(),
            Kind::Halfway => {
                let bits =
                    normal.to_bits() & 0xffff_0000 | random.pick(&[0x7fff, 0x8000, 0x8001, 0x1fff, 0xffff]);
                f32::from_bits(bits)
            }
            _ => normal,
        }
    }

    /// `m` queries: rows, rows that are moved a bit, the mean of all rows, zeros, and others of this kind, at any
    /// scale.
    pub fn queries(self, random: &mut Random, rows: &[f32], [m, d]: [usize; 2]) -> Vec<f32> {
        let n = rows.len() / d;
        let others = self.rows(random, [m, d]);
        let query = |random: &mut Random, at: usize| -> Vec<f32> {
            let of_row = &rows[random.below(n) * d..][..d];
            match random.below(7) {
                0 => of_row.to_vec(),
                1 => of_row.iter().map(|x| f32::from_bits(x.to_bits() ^ random.below(2) as u32)).collect(),
                2 => mean(rows, d),
                3 => vec![0.0; d],
                4 => {
                    let scale = random.pick(&[1e-15, 1e-5, 1e10, 1e15]);
                    let scaled = others[at * d..][..d].iter().map(|x| x * scale);
                    scaled.map(|x| x.clamp(-1e18, 1e18)).collect()
                }
                _ => others[at * d..][..d].to_vec(),
            }
        };
        (0..m).flat_map(|at| query(random, at)).collect()
    }
}

fn shell(random: &mut Random, base: &[f32]) -> Vec<f32> {
    let mut row: Vec<f32> = base.iter().map(|x| if random.below(2) == 0 { *x } else { -x }).collect();
    if random.below(2) == 0 {
        let at = random.below(row.len());
        row[at] = f32::from_bits(row[at].to_bits() ^ 1);
    }
    row
}

fn mean(rows: &[f32], d: usize) -> Vec<f32> {
    let n = (rows.len() / d) as f64;
    let column = |at: usize| rows.iter().skip(at).step_by(d).map(|&x| f64::from(x)).sum::<f64>();
    (0..d).map(|at| (column(at) / n) as f32).collect()
}
