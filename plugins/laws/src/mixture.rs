//! The source `mixture`.

use std::num::NonZero;
use std::thread;

use engine_core::diag::nearest;
use engine_core::ir::{Attr, DType, Type};
use engine_runtime::data::field::Field;
use engine_runtime::data::source::{DataError, DataSet, LoadContext, Provenance, Source, Split};
use engine_runtime::philox::WordStream;
use engine_runtime::tensor::{HostTensor, TensorError};
use indexmap::IndexMap;

use crate::draws::{normal, seed};

/// Vectors to search, `f32[rows, dim]`: the split `base` with the field `base`, and `queries` with the field `query`.
///
/// Splits and fields are those of the source `vectors`. A row is a centre and normal noise. Its law has a `kind`:
///
/// - `normal`: the centre is 0 and the deviation of the noise 1, so rows have no structure.
/// - `clusters`: there are `centres` standard normal centres, each equally likely. The deviation of the noise is `SIGMA`.
/// - `spectrum`: the centre is 0, and the variance of column i, counted from 1, is 1/i. Spectra of embeddings are similar.
///
/// Queries follow the law of the base, with draws of their own.
pub struct Mixture;

/// The deviation of a row from the centre of its cluster.
pub const SIGMA: f64 = 0.35;
const N_ROWS: usize = 100_000;
const N_QUERIES: usize = 1000;
const N_CENTRES: usize = 10_000;
const DIM: usize = 128;
/// Searches number rows by `i32`.
const MOST_ROWS: usize = i32::MAX as usize;
const MOST_DIMS: usize = 1 << 16;
const KIND: &str = "kind";
const CENTRES: &str = "centres";
const OPTIONS: [&str; 6] = [KIND, "rows", "queries", "dim", CENTRES, "seed"];
const DOMAIN: u32 = 0x4d49_5854;
/// The first items of the streams for rows, queries and centres.
const OF_BASE: u64 = 0;
const OF_QUERIES: u64 = 1 << 40;
const OF_CENTRES: u64 = 1 << 41;

impl Source for Mixture {
    fn name(&self) -> &str {
        "mixture"
    }

    fn summary(&self) -> &str {
        "vectors to search by a known law: normal, in clusters, or with the spectrum of embeddings; needs no file"
    }

    fn load(&self, context: &LoadContext) -> Result<DataSet, DataError> {
        context.check_options(&OPTIONS)?;
        let kind = kind(context)?;
        let n_rows = context.count("rows", MOST_ROWS)?.unwrap_or(N_ROWS);
        let n_queries = context.count("queries", MOST_ROWS)?.unwrap_or(N_QUERIES);
        let dim = context.count("dim", MOST_DIMS)?.unwrap_or(DIM);
        let (n_centres, seed) = (n_centres(context, kind, n_rows)?, seed(context)?);
        let split = |field: &str, rows: Field| Split::new(IndexMap::from([(field.to_string(), rows)]));
        let set = |base: Field, query: Field| {
            let splits = [("base", split("base", base)?), ("queries", split("query", query)?)];
            let splits = splits.map(|(name, rows)| (name.to_string(), rows)).into();
            Ok(DataSet { splits, ..DataSet::new(self.name(), Provenance::Synthetic) })
        };
        if context.types_only {
            let [base, query] =
                [n_rows, n_queries].map(|n| Field::described(Type::new(DType::F32, &[dim]), n));
            return set(base, query);
        }
        // Too many rows fail here, before the first number is drawn.
        let mut base = HostTensor::zeros(DType::F32, &[n_rows, dim])?;
        let mut query = HostTensor::zeros(DType::F32, &[n_queries, dim])?;
        let law = Law::new(kind, seed, [n_centres, dim])?;
        law.fill(seed, OF_BASE, &mut base)?;
        law.fill(seed, OF_QUERIES, &mut query)?;
        set(base.into(), query.into())
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Normal,
    Clusters,
    Spectrum,
}

const KINDS: [(&str, Kind); 3] =
    [("normal", Kind::Normal), ("clusters", Kind::Clusters), ("spectrum", Kind::Spectrum)];

/// The option `kind`, or clusters.
fn kind(context: &LoadContext) -> Result<Kind, DataError> {
    let Some(text) = context.text(KIND)? else { return Ok(Kind::Clusters) };
    let known = KINDS.iter().find(|(word, _)| *word == text).map(|(_, kind)| *kind);
    known.ok_or_else(|| {
        let words = KINDS.map(|(word, _)| format!("\"{word}\"")).join(" or ");
        let near = nearest(text, KINDS.map(|(word, _)| word));
        let hint = near.map(|near| format!("; did you mean \"{near}\"?")).unwrap_or_default();
        DataError::BadOption {
            name: KIND.to_string(),
            expected: format!("{words}{hint}"),
            found: Attr::from(text).to_string(),
        }
    })
}

/// The number of centres, at most that of the rows.
fn n_centres(context: &LoadContext, kind: Kind, n_rows: usize) -> Result<usize, DataError> {
    let given = context.options.iter().find(|(option, _)| &**option == CENTRES);
    match (kind, given) {
        (Kind::Clusters, _) => Ok(context.count(CENTRES, n_rows)?.unwrap_or(N_CENTRES.min(n_rows))),
        (_, None) => Ok(1),
        (_, Some((_, found))) => Err(DataError::BadOption {
            name: CENTRES.to_string(),
            expected: "a number with `kind: \"clusters\"` alone".to_string(),
            found: found.to_string(),
        }),
    }
}

/// The distribution of a row: a centre, each equally likely, and normal noise.
struct Law {
    /// `f32[centres, dim]`.
    centres: HostTensor,
    /// The deviation of the noise by column.
    deviations: Vec<f64>,
}

impl Law {
    fn new(kind: Kind, seed: u64, [n_centres, dim]: [usize; 2]) -> Result<Law, TensorError> {
        let law = Law { centres: HostTensor::zeros(DType::F32, &[1, dim])?, deviations: vec![1.0; dim] };
        Ok(match kind {
            Kind::Normal => law,
            Kind::Spectrum => {
                let deviations = (1..=dim).map(|column| libm::sqrt(1.0 / column as f64)).collect();
                Law { deviations, ..law }
            }
            Kind::Clusters => {
                let mut centres = HostTensor::zeros(DType::F32, &[n_centres, dim])?;
                law.fill(seed, OF_CENTRES, &mut centres)?;
                Law { centres, deviations: vec![SIGMA; dim] }
            }
        })
    }

    /// Draws rows on all cores. A row depends on the seed and its item alone, not on the number of cores.
    fn fill(&self, seed: u64, first_item: u64, rows: &mut HostTensor) -> Result<(), TensorError> {
        let dim = self.deviations.len();
        let centres = self.centres.as_slice::<f32>()?;
        let elements = rows.as_mut_slice::<f32>()?;
        let n_threads = thread::available_parallelism().map_or(1, NonZero::get);
        let n_per_thread = (elements.len() / dim).div_ceil(n_threads);
        thread::scope(|scope| {
            for (chunk_idx, chunk) in elements.chunks_mut(n_per_thread * dim).enumerate() {
                let first = first_item + (chunk_idx * n_per_thread) as u64;
                scope.spawn(move || {
                    for (item, row) in (first..).zip(chunk.chunks_exact_mut(dim)) {
                        self.draw(&mut WordStream::new(seed, DOMAIN, item), centres, row);
                    }
                });
            }
        });
        Ok(())
    }

    fn draw(&self, stream: &mut WordStream, centres: &[f32], row: &mut [f32]) {
        let dim = row.len();
        let chosen = stream.below((centres.len() / dim) as u32) as usize;
        let columns = centres[chosen * dim..].iter().zip(&self.deviations);
        for (element, (centre, deviation)) in row.iter_mut().zip(columns) {
            *element = (f64::from(*centre) + deviation * normal(stream)) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::path::Path;

    use engine_core::diag::Code;
    use engine_runtime::diagnostic::Coded;

    use super::*;

    fn load(options: &[(&str, Attr)]) -> Result<DataSet, DataError> {
        let options = options.iter().map(|(name, value)| ((*name).into(), value.clone())).collect();
        Mixture.load(&LoadContext { options, ..LoadContext::offline_in(Path::new("")) })
    }

    fn small(kind: &str, [n_rows, n_queries, dim]: [i64; 3], seed: i64) -> [HostTensor; 2] {
        let kind = ("kind", Attr::from(kind));
        let counts = [("rows", n_rows), ("queries", n_queries), ("dim", dim), ("seed", seed)];
        let [rows, queries, dim, seed] = counts.map(|(name, count)| (name, Attr::from(count)));
        let set = load(&[kind, rows, queries, dim, seed]).unwrap();
        [("base", "base"), ("queries", "query")]
            .map(|(split, field)| set.splits[split].tensor(field).unwrap())
    }

    /// The mean and the variance of each column.
    fn moments(rows: &HostTensor) -> Vec<[f64; 2]> {
        let (n_rows, dim) = (rows.shape()[0], rows.shape()[1]);
        let elements = rows.to_f64();
        let of_column = |column: usize| {
            let elements = || elements.iter().skip(column).step_by(dim);
            let mean = elements().sum::<f64>() / n_rows as f64;
            [mean, elements().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n_rows as f64]
        };
        (0..dim).map(of_column).collect()
    }

    #[test]
    fn columns_have_the_moments_of_their_law() {
        let variance = |kind: &str, column: usize| match kind {
            "clusters" => 1.0 + SIGMA * SIGMA,
            "spectrum" => 1.0 / (column + 1) as f64,
            _ => 1.0,
        };
        // Rows share centres, which doubles the variance of the moments at most.
        for (kind, excess) in [("normal", 1f64), ("clusters", 2.0), ("spectrum", 1.0)] {
            let error = (excess / 4000.0).sqrt();
            let rows = small(kind, [4000, 4000, 6], 1);
            for (column, [mean, found]) in rows.iter().flat_map(|rows| moments(rows).into_iter().enumerate())
            {
                let expected: f64 = variance(kind, column);
                let (shift, ratio) = (mean / expected.sqrt(), found / expected);
                assert!(shift.abs() < 4.0 * error, "{kind}, column {column}: mean {mean}");
                assert!((ratio - 1.0).abs() < 6.0 * error, "{kind}, column {column}: variance {found}");
            }
        }
    }

    /// The shares of a normal law within one and two deviations, and columns that do not depend on each other.
    #[test]
    fn noise_is_normal_and_independent_by_column() {
        const N_ROWS: usize = 4000;
        for kind in ["normal", "spectrum"] {
            let [base, _] = small(kind, [N_ROWS as i64, 1, 6], 1);
            let deviation =
                |column: usize| if kind == "spectrum" { 1.0 / (column as f64 + 1.0).sqrt() } else { 1.0 };
            let scaled: Vec<f64> =
                base.to_f64().iter().enumerate().map(|(i, x)| x / deviation(i % 6)).collect();
            for (reach, expected) in [(1.0, 0.682_689_5), (2.0, 0.954_499_7)] {
                let share = scaled.iter().filter(|x| x.abs() < reach).count() as f64 / scaled.len() as f64;
                let error = (expected * (1.0 - expected) / scaled.len() as f64).sqrt();
                assert!((share - expected).abs() < 4.0 * error, "{kind}: {share} within {reach}");
            }
            for (a, b) in (0..6).flat_map(|a| (0..a).map(move |b| (a, b))) {
                let product = scaled.chunks_exact(6).map(|row| row[a] * row[b]).sum::<f64>() / N_ROWS as f64;
                assert!(
                    product.abs() < 4.0 / (N_ROWS as f64).sqrt(),
                    "{kind}, columns {a} and {b}: {product}"
                );
            }
        }
    }

    #[test]
    fn rows_and_queries_surround_the_same_centres() {
        let options = [("rows", 1000), ("queries", 1000), ("dim", 32), ("centres", 20)];
        let set = load(&options.map(|(name, count)| (name, Attr::from(count)))).unwrap();
        let centres = Law::new(Kind::Clusters, 0, [20, 32]).unwrap().centres.to_f64();
        for (split, field) in [("base", "base"), ("queries", "query")] {
            let rows = set.splits[split].tensor(field).unwrap().to_f64();
            let (mut counts, mut squares) = ([0u32; 20], 0.0);
            for row in rows.chunks_exact(32) {
                let square = |(x, centre): (&f64, &f64)| (x - centre) * (x - centre);
                let distance = |centre: &[f64]| row.iter().zip(centre).map(square).sum::<f64>();
                let distances = centres.chunks_exact(32).map(distance).enumerate();
                let (cluster, distance) = distances.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
                counts[cluster] += 1;
                squares += distance;
            }
            let variance = squares / rows.len() as f64;
            assert!((variance / (SIGMA * SIGMA) - 1.0).abs() < 0.04, "{split}: {variance}");
            assert!(counts.iter().all(|count| (20..80).contains(count)), "{split}: {counts:?}");
        }
    }

    #[test]
    fn rows_depend_on_the_seed_and_their_number_alone() {
        for kind in ["normal", "spectrum"] {
            let [base, query] = small(kind, [97, 50, 3], 5);
            assert_eq!([base.clone(), query.clone()], small(kind, [97, 50, 3], 5));
            let [few, of_few] = small(kind, [13, 7, 3], 5);
            assert_eq!([few, of_few], [base.first_rows(13).unwrap(), query.first_rows(7).unwrap()]);
            assert_ne!(base.first_rows(50).unwrap(), query);
            assert_ne!(base, small(kind, [97, 50, 3], 6)[0]);
        }
        let clusters = small("clusters", [97, 50, 3], 5);
        assert_eq!(clusters, small("clusters", [97, 50, 3], 5));
        assert_eq!(clusters[1].first_rows(7).unwrap(), small("clusters", [97, 7, 3], 5)[1]);
        assert_ne!(clusters, small("clusters", [97, 50, 3], 6));
    }

    /// Numbers of another implementation of Philox and of the law.
    #[test]
    fn rows_are_fixed_for_good() {
        let fixed: [(&str, [[f32; 6]; 2]); 3] = [
            (
                "normal",
                [
                    [1.2748654, -0.63136643, -1.3693744, 0.21179192, 0.43930012, 0.90760773],
                    [-0.71994704, -1.4618927, 0.30146345, 0.23503359, 0.13458426, -1.2626925],
                ],
            ),
            (
                "clusters",
                [
                    [0.6060122, 0.024990132, -1.1448512, 0.23393652, 0.39972344, -0.34790742],
                    [-0.47214493, 0.31570557, -0.6324346, -0.1379017, 0.8744725, -1.1798892],
                ],
            ),
            (
                "spectrum",
                [
                    [1.2748654, -0.4464435, -0.7906087, 0.21179192, 0.31063208, 0.52400756],
                    [-0.71994704, -1.0337143, 0.17405002, 0.23503359, 0.09516544, -0.7290158],
                ],
            ),
        ];
        for (kind, expected) in fixed {
            let rows = small(kind, [2, 2, 3], 1);
            assert_eq!(rows.each_ref().map(|rows| rows.as_slice::<f32>().unwrap()), expected, "{kind}");
        }
    }

    /// The help for an option that is refused.
    fn refused(option: (&str, Attr), others: &[(&str, Attr)]) -> String {
        let expected = format!("option `{}` cannot be {}", option.0, option.1);
        let error = load(&[&[option], others].concat()).unwrap_err();
        assert_eq!((error.to_string(), error.code()), (expected, Some(Code::E0010)));
        error.help().unwrap()
    }

    #[test]
    fn options_are_checked() {
        let kinds = "it takes \"normal\" or \"clusters\" or \"spectrum\"";
        assert_eq!(
            refused(("kind", Attr::from("cluster")), &[]),
            format!("{kinds}; did you mean \"clusters\"?")
        );
        assert_eq!(refused(("kind", Attr::from("rings")), &[]), kinds);
        assert_eq!(refused(("kind", Attr::from(1)), &[]), "it takes a text");
        for option in ["rows", "queries"] {
            let help = refused((option, Attr::from(0)), &[]);
            assert_eq!(help, "it takes a whole number from 1 to 2147483647");
        }
        assert_eq!(refused(("dim", Attr::from(0)), &[]), "it takes a whole number from 1 to 65536");
        let help = refused(("centres", Attr::from(21)), &[("rows", Attr::from(20))]);
        assert_eq!(help, "it takes a whole number from 1 to 20");
        let help = refused(("centres", Attr::from(20)), &[("kind", Attr::from("normal"))]);
        assert_eq!(help, "it takes a number with `kind: \"clusters\"` alone");
        let unknown = load(&[("n_train", Attr::from(20))]).unwrap_err();
        assert_eq!(unknown.to_string(), "there is no option `n_train`");
    }

    #[test]
    fn rows_that_no_memory_holds_are_refused() {
        let options = [("rows", Attr::from(i64::from(i32::MAX))), ("dim", Attr::from(1 << 16))];
        let error = load(&options).unwrap_err();
        assert_eq!(error.to_string(), "the host has no 562949953159168 bytes of memory left");
        assert_eq!(error.code(), Some(Code::E0604));
    }
}
