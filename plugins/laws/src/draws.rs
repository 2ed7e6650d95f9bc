//! Random numbers of double precision.

use engine_core::ir::Symbol;
use engine_runtime::data::source::{DataError, LoadContext};
use engine_runtime::philox::WordStream;

/// A split and its number of rows.
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) n_rows: usize,
    /// The row with number 0 is the item of this number, and the next row that of two more.
    first: u64,
}

impl Part {
    /// The item of a row.
    pub(crate) fn item(&self, row: usize) -> u64 {
        self.first + 2 * row as u64
    }
}

/// The options of `houses` and `choices`.
pub(crate) const OPTIONS: [&str; 3] = ["n_train", "n_test", "seed"];
/// The most rows of a split. More rows would fill gigabytes after a typing error.
const MOST_ROWS: usize = 10_000_000;

/// The splits `train` and `test`, of these sizes unless options say otherwise, and the seed.
pub(crate) fn parts(
    context: &LoadContext,
    n_train: usize,
    n_test: usize,
) -> Result<([Part; 2], u64), DataError> {
    let n_train = context.count("n_train", MOST_ROWS)?.unwrap_or(n_train);
    let n_test = context.count("n_test", MOST_ROWS)?.unwrap_or(n_test);
    let seed = seed(context)?;
    let [train, test] = [("train", n_train, 0), ("test", n_test, 1)].map(|(name, n_rows, first)| Part {
        name,
        n_rows,
        first,
    });
    Ok(([train, test], seed))
}

/// The option `seed`, or 0.
pub(crate) fn seed(context: &LoadContext) -> Result<u64, DataError> {
    Ok(context.count("seed", i64::MAX as usize)?.unwrap_or(0) as u64)
}

/// The options of a source without its own.
pub(crate) fn others(context: &LoadContext) -> LoadContext {
    let is_other = |(name, _): &&(Symbol, _)| !OPTIONS.contains(&&**name);
    LoadContext { options: context.options.iter().filter(is_other).cloned().collect(), ..context.clone() }
}

/// A multiple of 2⁻³² in `[0, 1)`.
pub(crate) fn unit(stream: &mut WordStream) -> f64 {
    f64::from(stream.word()) / 4_294_967_296.0
}

/// A number of the standard normal distribution, by Box and Muller.
pub(crate) fn normal(stream: &mut WordStream) -> f64 {
    let (radius, angle) = (unit(stream), unit(stream));
    libm::sqrt(-2.0 * libm::log(1.0 - radius)) * libm::cos(std::f64::consts::TAU * angle)
}
