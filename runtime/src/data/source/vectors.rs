//! Vectors to search: a base, queries, and for each query its true neighbours, from files that the pipeline names.

use std::path::{Path, PathBuf};

use engine_core::ir::{DType, Type};
use indexmap::IndexMap;

use super::{DataError, DataSet, LoadContext, Provenance, Source, Split};
use crate::data::field::Field;
use crate::data::table;
use crate::philox::WordStream;
use crate::tensor::{HostTensor, TensorError};

/// The splits `base` (field `base`) and `queries` (fields `query` and, if there is a truth, `neighbours`).
pub struct Vectors;

const BASE: &str = "base";
const QUERIES: &str = "queries";
const TRUTH: &str = "truth";
const DIM: &str = "dim";

impl Source for Vectors {
    fn name(&self) -> &str {
        "vectors"
    }

    fn summary(&self) -> &str {
        "vectors to search in files `base` and `queries`, neighbours in `truth`: .fvecs, .fbin and their like, .npy, or images"
    }

    fn load(&self, context: &LoadContext) -> Result<DataSet, DataError> {
        context.check_options(&[BASE, QUERIES, TRUTH, DIM])?;
        let [base, queries] = [BASE, QUERIES].map(|option| Wanted::new(option, context));
        let (Some(base), Some(queries)) = (base?, queries?) else {
            return Err(DataError::BadOption {
                name: if context.text(BASE)?.is_some() { QUERIES } else { BASE }.to_string(),
                expected: "the name of a file, as `base` and `queries` both do".to_string(),
                found: "left out".to_string(),
            });
        };
        let truth = Wanted::new(TRUTH, context)?;
        let all: Vec<&Wanted> = [&base, &queries].into_iter().chain(&truth).collect();
        let Some(present) = all.iter().find_map(|wanted| wanted.found.clone()) else {
            return stand_in(context, &base.file);
        };
        if let Some(missing) = all.iter().find(|wanted| wanted.found.is_none()) {
            return Err(DataError::MissingFile { present, missing: missing.file.clone() });
        }
        let dir = present.parent().unwrap_or(Path::new("")).to_path_buf();
        let mut fields = IndexMap::from([("query".to_string(), queries.read(context)?)]);
        if let Some(truth) = &truth {
            fields.insert("neighbours".to_string(), truth.read(context)?);
        }
        let name = base.file.file_stem().map_or(self.name().into(), |stem| stem.to_string_lossy());
        set(name.to_string(), Provenance::Files { dir }, None, base.read(context)?, fields)
    }
}

fn set(
    name: String,
    provenance: Provenance,
    note: Option<String>,
    base: Field,
    queries: IndexMap<String, Field>,
) -> Result<DataSet, DataError> {
    let base = Split::new(IndexMap::from([("base".to_string(), base)]))?;
    let splits = IndexMap::from([("base".to_string(), base), ("queries".to_string(), Split::new(queries)?)]);
    Ok(DataSet { note, splits, ..DataSet::new(name, provenance) })
}

/// A file that an option names, and where it was found.
struct Wanted {
    file: PathBuf,
    found: Option<PathBuf>,
}

impl Wanted {
    fn new(option: &str, context: &LoadContext) -> Result<Option<Wanted>, DataError> {
        let Some(name) = context.text(option)? else { return Ok(None) };
        let found = context.find(Path::new(name));
        Ok(Some(Wanted { file: PathBuf::from(name), found }))
    }

    fn read(&self, context: &LoadContext) -> Result<Field, DataError> {
        let path = self.found.as_deref().unwrap_or(&self.file);
        let described = if context.types_only { context.on_disk(path)? } else { None };
        let rows = described.map_or_else(|| table::read(path).map(Field::from), Ok)?;
        let row = rows.row_type();
        match (row.rank(), row.dtype) {
            (1, _) => Ok(rows),
            (2, DType::U8) => Ok(pixels(&rows)?),
            _ => Err(DataError::WrongContent {
                path: path.to_path_buf(),
                set: "vectors".to_string(),
                expected: "a matrix, one vector a row".to_string(),
                found: format!("{rows:?}"),
            }),
        }
    }
}

/// Images as rows of `f32`.
fn pixels(images: &Field) -> Result<Field, TensorError> {
    let (n_pixels, n_rows) = (images.row_type().numel(), images.n_rows().unwrap_or_default());
    let Some(tensor) = images.stored() else {
        return Ok(Field::described(Type::new(DType::F32, &[n_pixels]), n_rows));
    };
    let pixels: Vec<f32> = tensor.bytes().iter().map(|&pixel| f32::from(pixel)).collect();
    Ok(HostTensor::from_slice(&[n_rows, n_pixels], &pixels)?.into())
}

const N_BASE: usize = 5000;
const N_QUERIES: usize = 100;
const N_NEIGHBOURS: usize = 100;
const DEFAULT_DIM: usize = 128;
const MOST_DIMS: usize = 4096;

/// Whole numbers drawn by the program, with their exact neighbours.
fn stand_in(context: &LoadContext, file: &Path) -> Result<DataSet, DataError> {
    let dim = context.count(DIM, MOST_DIMS)?.unwrap_or(DEFAULT_DIM);
    let (wanted, why) = (file.display().to_string(), format!("it is not in {}", context.roots_text()));
    let (provenance, note) = context.stand_in("random vectors drawn by the program", &wanted, &why)?;
    let [base, query] = [(N_BASE, 1), (N_QUERIES, 2)].map(|(n_rows, stream)| drawn(n_rows, dim, stream));
    let neighbours = neighbours(&base, &query, dim);
    let base = HostTensor::from_slice(&[N_BASE, dim], &base)?;
    let query = HostTensor::from_slice(&[N_QUERIES, dim], &query)?;
    let neighbours = HostTensor::from_slice(&[N_QUERIES, N_NEIGHBOURS], &neighbours)?;
    let queries = [("query", query), ("neighbours", neighbours)];
    let queries = queries.map(|(name, rows)| (name.to_string(), rows.into())).into();
    set("random-vectors".to_string(), provenance, Some(note), base.into(), queries)
}

/// Numbers from 0 to 99.
fn drawn(n_rows: usize, dim: usize, stream: u32) -> Vec<f32> {
    let mut words = WordStream::new(11, stream, 0);
    (0..n_rows * dim).map(|_| words.below(100) as f32).collect()
}

/// The nearest rows of each query by squared distance, equal ones by index. Sums of whole numbers are exact.
fn neighbours(base: &[f32], queries: &[f32], dim: usize) -> Vec<i32> {
    let nearest = |query: &[f32]| {
        let square = |(x, q): (&f32, &f32)| ((x - q) as i64).pow(2);
        let distance = |row: &[f32]| row.iter().zip(query).map(square).sum::<i64>();
        let mut rows: Vec<(i64, i32)> = base.chunks_exact(dim).map(distance).zip(0..).collect();
        rows.sort_unstable();
        rows.into_iter().take(N_NEIGHBOURS).map(|(_, row)| row).collect::<Vec<i32>>()
    };
    queries.chunks_exact(dim).flat_map(nearest).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::data::results::write;
    use engine_core::ir::Attr;

    #[test]
    fn images_become_rows() {
        let dir = tempfile::tempdir().unwrap();
        let header = [0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3];
        let images = |pixels: [u8; 6]| [&header[..], &pixels].concat();
        std::fs::write(dir.path().join("base"), images([0, 1, 2, 3, 4, 255])).unwrap();
        std::fs::write(dir.path().join("q"), images([7; 6])).unwrap();
        let set = Vectors.load(&context(dir.path(), &[("base", "base"), ("queries", "q")])).unwrap();
        let rows = HostTensor::from_slice(&[2, 3], &[0.0f32, 1.0, 2.0, 3.0, 4.0, 255.0]).unwrap();
        assert_eq!(set.splits["base"].tensor("base").unwrap(), rows);
    }

    fn context(dir: &Path, options: &[(&str, &str)]) -> LoadContext {
        let options = options.iter().map(|(name, file)| ((*name).into(), Attr::from(*file))).collect();
        LoadContext { options, ..LoadContext::offline_in(dir) }
    }

    const FILES: [(&str, &str); 3] =
        [("base", "a/base.fvecs"), ("queries", "a/q.npy"), ("truth", "a/t.ivecs")];

    #[test]
    fn files_of_several_formats_make_a_set() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("a")).unwrap();
        let base = HostTensor::from_slice(&[3, 2], &[0.0f32, 1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        let query = HostTensor::from_slice(&[1, 2], &[2.0f32, 2.0]).unwrap();
        let truth = HostTensor::from_slice(&[1, 2], &[1i32, 0]).unwrap();
        for ((_, file), tensor) in FILES.iter().zip([&base, &query, &truth]) {
            write(tensor, &dir.path().join(file)).unwrap();
        }
        let set = Vectors.load(&context(dir.path(), &FILES)).unwrap();
        assert_eq!((set.name.as_str(), set.note), ("base", None));
        assert_eq!(set.splits["base"].tensor("base").unwrap(), base);
        assert_eq!(set.splits["queries"].tensor("query").unwrap(), query);
        assert_eq!(set.splits["queries"].tensor("neighbours").unwrap(), truth);

        std::fs::remove_file(dir.path().join("a/q.npy")).unwrap();
        let error = Vectors.load(&context(dir.path(), &FILES)).unwrap_err().to_string();
        assert!(error.ends_with("a/base.fvecs is there but `a/q.npy` is not"), "{error}");
    }

    #[test]
    fn vectors_that_are_nowhere_are_drawn_and_it_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let set = Vectors.load(&context(dir.path(), &FILES)).unwrap();
        assert!(set.is_synthetic());
        let note = set.note.unwrap();
        assert!(
            note.starts_with("random vectors drawn by the program stand in for `a/base.fvecs`"),
            "{note}"
        );
        assert_eq!(set.splits["base"].tensor("base").unwrap().shape(), [N_BASE, DEFAULT_DIM]);
        let truth = set.splits["queries"].tensor("neighbours").unwrap();
        assert_eq!(truth.shape(), [N_QUERIES, N_NEIGHBOURS]);
    }
}
