//! Where data sets come from: an open list of sources, and the look-up of files on disk.
//!
//! The files of a set are looked for in the folders that [`LoadContext::folders`] lists. Files that are there are
//! used or are an error. A set that is nowhere is downloaded, unless that is forbidden or fails; then the built-in
//! synthetic digits stand in for it, and [`DataSet::note`] says so.

use std::env;
use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine_core::ir::{Attr, Literal, Symbol};
use indexmap::IndexMap;
use thiserror::Error;

use super::digits::{self, Part};
use super::idx::{self, IdxError};
use super::numbers::Numbers;
use super::vectors::Vectors;
use crate::tensor::{HostTensor, TensorError};

/// One way to get a data set. Plugins add their own to [`Sources`].
pub trait Source: Send + Sync {
    /// The name that pipelines use, such as `mnist`.
    fn name(&self) -> &str;
    /// One sentence for listings.
    fn summary(&self) -> &str;
    /// Reads, fetches or makes the data.
    fn load(&self, context: &LoadContext) -> Result<DataSet, DataError>;
}

/// The sources that pipelines can name, in order of registration.
pub struct Sources {
    by_name: IndexMap<String, Arc<dyn Source>>,
}

impl Sources {
    /// `mnist`, `fashion-mnist`, `synthetic-digits`, `vectors` and `numbers`.
    pub fn with_builtin() -> Self {
        let builtin: [Arc<dyn Source>; 5] = [
            Arc::new(MNIST),
            Arc::new(FASHION_MNIST),
            Arc::new(SyntheticDigits),
            Arc::new(Vectors),
            Arc::new(Numbers),
        ];
        Sources { by_name: builtin.into_iter().map(|source| (source.name().to_string(), source)).collect() }
    }

    /// Adds a source; fails if its name is taken.
    pub fn register(&mut self, source: impl Source + 'static) -> Result<(), DataError> {
        let name = source.name().to_string();
        if self.by_name.contains_key(&name) {
            return Err(DataError::DuplicateSource { name });
        }
        self.by_name.insert(name, Arc::new(source));
        Ok(())
    }

    /// The source of that name.
    pub fn get(&self, name: &str) -> Result<&dyn Source, DataError> {
        let source = self.by_name.get(name).map(|source| &**source);
        source.ok_or_else(|| DataError::UnknownSource { name: name.to_string(), known: self.names() })
    }

    /// Loads the source of that name.
    pub fn load(&self, name: &str, context: &LoadContext) -> Result<DataSet, DataError> {
        self.get(name)?.load(context)
    }

    /// Every source.
    pub fn iter(&self) -> impl Iterator<Item = &dyn Source> {
        self.by_name.values().map(|source| &**source)
    }

    fn names(&self) -> String {
        let names: Vec<&str> = self.by_name.keys().map(String::as_str).collect();
        names.join(", ")
    }
}

/// Rows to learn from and to judge by, with the account of where they come from.
#[derive(Clone, Debug, PartialEq)]
pub struct DataSet {
    /// The set that was loaded; not always the one that was asked for.
    pub name: String,
    /// Where its rows come from.
    pub provenance: Provenance,
    /// What the user must be told, such as that this is a stand-in and why.
    pub note: Option<String>,
    /// The parts of the set by name, such as `train` and `test`.
    pub splits: IndexMap<String, Split>,
}

impl DataSet {
    /// Whether the program made the rows itself, so that results on them say nothing about the real task.
    pub fn is_synthetic(&self) -> bool {
        self.provenance == Provenance::Synthetic
    }

    /// The split of that name.
    pub fn split(&self, name: &str) -> Result<&Split, DataError> {
        self.splits.get(name).ok_or_else(|| DataError::UnknownSplit {
            set: self.name.clone(),
            name: name.to_string(),
            known: self.splits.keys().map(String::as_str).collect::<Vec<_>>().join(", "),
        })
    }
}

/// Where the rows of a data set come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// Files found on disk.
    Files {
        /// Their folder.
        dir: PathBuf,
    },
    /// Made by the program itself.
    Synthetic,
    /// Files fetched just now, with their checksums verified.
    Downloaded {
        /// The folder that they were put in.
        dir: PathBuf,
    },
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Provenance::Files { dir } => write!(f, "files in {}", dir.display()),
            Provenance::Synthetic => f.write_str("synthetic"),
            Provenance::Downloaded { dir } => write!(f, "downloaded to {}", dir.display()),
        }
    }
}

/// Fields with the same number of rows, the outermost extent of each.
#[derive(Clone, Debug, PartialEq)]
pub struct Split {
    fields: IndexMap<String, HostTensor>,
    n_rows: usize,
}

impl Split {
    /// A split of the given fields; fails unless there is one at least and all have the same number of rows.
    pub fn new(fields: IndexMap<String, HostTensor>) -> Result<Self, DataError> {
        let n_rows = fields.first().and_then(|(_, tensor)| tensor.shape().first().copied());
        let n_rows = n_rows.ok_or(DataError::NoRows)?;
        for (name, tensor) in &fields {
            let found = tensor.shape().first().copied();
            if found != Some(n_rows) {
                return Err(DataError::UnevenFields { field: name.clone(), expected: n_rows, found });
            }
        }
        Ok(Split { fields, n_rows })
    }

    /// How many rows every field has.
    pub fn n_rows(&self) -> usize {
        self.n_rows
    }

    /// The field of that name.
    pub fn field(&self, name: &str) -> Result<&HostTensor, DataError> {
        self.fields.get(name).ok_or_else(|| DataError::UnknownField {
            name: name.to_string(),
            known: self.fields.keys().map(String::as_str).collect::<Vec<_>>().join(", "),
        })
    }

    /// Every field by name, in order of declaration.
    pub fn fields(&self) -> &IndexMap<String, HostTensor> {
        &self.fields
    }
}

/// Where a source may look, what it may do, and how the pipeline sets it up.
#[derive(Clone, Debug)]
pub struct LoadContext {
    /// Folders that hold data, most wanted first; a download goes to the first.
    pub roots: Vec<PathBuf>,
    /// Whether the network must not be used.
    pub offline: bool,
    /// Settings of the source in the pipeline.
    pub options: Vec<(Symbol, Attr)>,
    /// Told what takes long, such as a download, before it starts.
    pub say: fn(&str),
}

impl LoadContext {
    /// Looks in `data_dir` (the command line's), in `ENGINE_DATA_DIR`, then in `data`; stays off the network if
    /// `ENGINE_OFFLINE` is set to anything but nothing or `0`.
    pub fn from_env(data_dir: Option<&Path>) -> Self {
        let from_env = env::var_os("ENGINE_DATA_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from);
        let offline = env::var_os("ENGINE_OFFLINE").is_some_and(|value| !value.is_empty() && value != "0");
        let roots = [data_dir.map(Path::to_path_buf), from_env, Some(PathBuf::from("data"))];
        LoadContext { roots: roots.into_iter().flatten().collect(), offline, options: vec![], say: |_| {} }
    }

    /// Looks in the given folder alone and stays off the network.
    pub fn offline_in(dir: &Path) -> Self {
        LoadContext { roots: vec![dir.to_path_buf()], offline: true, options: vec![], say: |_| {} }
    }

    /// The folders in which the files of a set may lie: under each root its folder named like the set, then the
    /// root itself.
    pub fn folders(&self, set: &str) -> Vec<PathBuf> {
        self.roots.iter().flat_map(|root| [root.join(set), root.clone()]).collect()
    }

    /// The option of that name as a count of at most `most`.
    pub fn count(&self, name: &str, most: usize) -> Result<Option<usize>, DataError> {
        let bad = |found: &Attr| DataError::BadOption {
            name: name.to_string(),
            why: format!("{} was expected, {found} was given", Count { most }),
        };
        let option = self.options.iter().find(|(option, _)| &**option == name);
        let Some((_, found)) = option else { return Ok(None) };
        match found {
            Attr::Lit(Literal::Int(count)) => match usize::try_from(*count) {
                Ok(count) if (1..=most).contains(&count) => Ok(Some(count)),
                _ => Err(bad(found)),
            },
            _ => Err(bad(found)),
        }
    }

    /// The option of that name as a text.
    pub fn text(&self, name: &str) -> Result<Option<&str>, DataError> {
        match self.options.iter().find(|(option, _)| &**option == name) {
            None => Ok(None),
            Some((_, Attr::Str(text))) => Ok(Some(text)),
            Some((_, found)) => Err(DataError::BadOption {
                name: name.to_string(),
                why: format!("a text was expected, {found} was given"),
            }),
        }
    }

    /// Fails on an option that is none of `known`.
    pub fn check_options(&self, known: &[&str]) -> Result<(), DataError> {
        match self.options.iter().find(|(name, _)| !known.contains(&&**name)) {
            None => Ok(()),
            Some((name, _)) => Err(DataError::BadOption {
                name: name.to_string(),
                why: format!("there is no such option, there are: {}", known.join(", ")),
            }),
        }
    }
}

struct Count {
    most: usize,
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from 1 to {}", self.most)
    }
}

/// Why a data set cannot be had.
#[derive(Debug, Error)]
pub enum DataError {
    /// No source has that name.
    #[error("there is no data source `{name}`, there are: {known}")]
    UnknownSource {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// Two sources want the same name.
    #[error("there is a data source `{name}` already")]
    DuplicateSource {
        /// The name.
        name: String,
    },
    /// The set has no split of that name.
    #[error("data set `{set}` has no split `{name}`, it has: {known}")]
    UnknownSplit {
        /// The set.
        set: String,
        /// The split asked for.
        name: String,
        /// The splits there are.
        known: String,
    },
    /// The split has no field of that name.
    #[error("the data has no field `{name}`, it has: {known}")]
    UnknownField {
        /// The field asked for.
        name: String,
        /// The fields there are.
        known: String,
    },
    /// A setting of the source is not understood.
    #[error("option `{name}`: {why}")]
    BadOption {
        /// The option.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// A split has no field, or its first field is a scalar.
    #[error("a split needs at least one field with rows")]
    NoRows,
    /// The fields of a split do not go together.
    #[error("field `{field}` has {} rows, the first field has {expected}", found.map_or("no".to_string(), |n| n.to_string()))]
    UnevenFields {
        /// The field that differs.
        field: String,
        /// Rows of the first field.
        expected: usize,
        /// Rows of this field; none if it is a scalar.
        found: Option<usize>,
    },
    /// Some files of a set are there and others are not.
    #[error(
        "{} has `{present}` but neither `{missing}` nor `{missing}.gz`; complete the set or move it away",
        .dir.display()
    )]
    Incomplete {
        /// The folder.
        dir: PathBuf,
        /// A file that is there.
        present: String,
        /// The first that is not.
        missing: String,
    },
    /// Some files that the pipeline names are there and others are not.
    #[error("{} is there but `{}` is not; complete the set or move it away", .present.display(), .missing.display())]
    MissingFile {
        /// A file that is there.
        present: PathBuf,
        /// The first that is not, as it is named.
        missing: PathBuf,
    },
    /// A file is sound but not of this set.
    #[error("{}: {found} was read where the set `{set}` has {expected}", .path.display())]
    WrongContent {
        /// The file.
        path: PathBuf,
        /// The set.
        set: String,
        /// What the set has in that place.
        expected: String,
        /// What the file has.
        found: String,
    },
    /// An IDX file cannot be used.
    #[error(transparent)]
    Idx(#[from] IdxError),
    /// So much data cannot be held.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// What a plugin's source has to say.
    #[error(transparent)]
    Other(Box<dyn Error + Send + Sync>),
}

/// More rows than this are refused rather than drawn: they would fill gigabytes by a slip of the keyboard.
const MOST_ROWS: usize = 1_000_000;
const ROW_OPTIONS: [&str; 2] = ["n_train", "n_test"];

/// The built-in digits, with options `n_train`, `n_test` and `seed`.
struct SyntheticDigits;

impl Source for SyntheticDigits {
    fn name(&self) -> &str {
        "synthetic-digits"
    }

    fn summary(&self) -> &str {
        "28×28 digits drawn by the program, 60,000 to learn from and 10,000 to judge by; needs no file"
    }

    fn load(&self, context: &LoadContext) -> Result<DataSet, DataError> {
        context.check_options(&["n_train", "n_test", "seed"])?;
        let seed = context.count("seed", i64::MAX as usize)?.map_or(digits::DEFAULT_SEED, |seed| seed as u64);
        draw_digits(seed, context, None)
    }
}

fn draw_digits(seed: u64, context: &LoadContext, note: Option<String>) -> Result<DataSet, DataError> {
    let n_train = context.count("n_train", MOST_ROWS)?.unwrap_or(digits::N_TRAIN);
    let n_test = context.count("n_test", MOST_ROWS)?.unwrap_or(digits::N_TEST);
    let mut splits = IndexMap::new();
    for (name, part, n_rows) in [("train", Part::Train, n_train), ("test", Part::Test, n_test)] {
        let drawn = digits::draw(seed, part, n_rows)?;
        splits.insert(name.to_string(), labelled(drawn.images, drawn.labels)?);
    }
    Ok(DataSet { name: SyntheticDigits.name().to_string(), provenance: Provenance::Synthetic, note, splits })
}

fn labelled(images: HostTensor, labels: HostTensor) -> Result<Split, DataError> {
    Split::new(IndexMap::from([("images".to_string(), images), ("labels".to_string(), labels)]))
}

/// A set of 28×28 images in ten classes that is published as four gzipped IDX files.
pub(super) struct IdxSet {
    pub(super) name: &'static str,
    pub(super) summary: &'static str,
    /// Folders on the web that hold the four files.
    #[cfg_attr(not(feature = "download"), expect(dead_code, reason = "read by the downloader alone"))]
    pub(super) mirrors: &'static [&'static str],
    /// SHA-256 of the four gzipped files, in the order of [`FILES`].
    #[cfg_attr(not(feature = "download"), expect(dead_code, reason = "read by the downloader alone"))]
    pub(super) sha256: [&'static str; 4],
}

/// The files of every such set: images and labels to learn from, then to judge by.
pub(super) const FILES: [&str; 4] = [
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
];

const MNIST: IdxSet = IdxSet {
    name: "mnist",
    summary: "handwritten digits by LeCun, Cortes and Burges: 28×28, 60,000 to learn from and 10,000 to judge by",
    mirrors: &[
        "http://ossci-datasets.s3.amazonaws.com/mnist",
        "http://storage.googleapis.com/cvdf-datasets/mnist",
    ],
    sha256: [
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ],
};

const FASHION_MNIST: IdxSet = IdxSet {
    name: "fashion-mnist",
    summary: "pictures of clothes by Zalando, in the shape of mnist but harder",
    mirrors: &["http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"],
    sha256: [
        "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    ],
};

impl Source for IdxSet {
    fn name(&self) -> &str {
        self.name
    }

    fn summary(&self) -> &str {
        self.summary
    }

    fn load(&self, context: &LoadContext) -> Result<DataSet, DataError> {
        context.check_options(&ROW_OPTIONS)?;
        for dir in context.folders(self.name).into_iter().filter(|dir| !self.is_for_another_set(dir)) {
            if let Some(files) = self.files_in(&dir)? {
                return self.read(&files, Provenance::Files { dir }, context);
            }
        }
        match self.download(context) {
            Ok(dir) => {
                let files = FILES.map(|file| dir.join(format!("{file}.gz")));
                self.read(&files, Provenance::Downloaded { dir }, context)
            }
            Err(why) => draw_digits(digits::DEFAULT_SEED, context, Some(self.stand_in_note(context, &why))),
        }
    }
}

impl IdxSet {
    /// The sets share file names, so that `mnist/` must not be read as Fashion-MNIST.
    fn is_for_another_set(&self, dir: &Path) -> bool {
        let others = [MNIST.name, FASHION_MNIST.name].into_iter().filter(|other| *other != self.name);
        dir.file_name().is_some_and(|folder| others.into_iter().any(|other| folder == other))
    }

    /// The four files, if the folder has any of them; fails if it has some and not others.
    fn files_in(&self, dir: &Path) -> Result<Option<[PathBuf; 4]>, DataError> {
        let found = FILES.map(|file| find_file(dir, file));
        if let [Some(a), Some(b), Some(c), Some(d)] = found {
            return Ok(Some([a, b, c, d]));
        }
        let present = FILES.iter().zip(&found).find(|(_, path)| path.is_some());
        let missing = FILES.iter().zip(&found).find(|(_, path)| path.is_none());
        match (present, missing) {
            (Some((present, _)), Some((missing, _))) => Err(DataError::Incomplete {
                dir: dir.to_path_buf(),
                present: present.to_string(),
                missing: missing.to_string(),
            }),
            _ => Ok(None),
        }
    }

    fn read(
        &self,
        [train_images, train_labels, test_images, test_labels]: &[PathBuf; 4],
        provenance: Provenance,
        context: &LoadContext,
    ) -> Result<DataSet, DataError> {
        let n_train = context.count("n_train", MOST_ROWS)?;
        let n_test = context.count("n_test", MOST_ROWS)?;
        let train = self.read_split(train_images, train_labels, n_train)?;
        let test = self.read_split(test_images, test_labels, n_test)?;
        let splits = IndexMap::from([("train".to_string(), train), ("test".to_string(), test)]);
        Ok(DataSet { name: self.name.to_string(), provenance, note: None, splits })
    }

    fn read_split(
        &self,
        images_at: &Path,
        labels_at: &Path,
        n_rows: Option<usize>,
    ) -> Result<Split, DataError> {
        let images = idx::read_images(images_at)?;
        let labels = idx::read_labels(labels_at, digits::N_CLASSES)?;
        if images.shape()[1..] != [digits::SIDE, digits::SIDE] {
            return Err(self.wrong_content(images_at, "u8[N,28,28]".to_string(), format!("{images:?}")));
        }
        if images.shape()[0] != labels.shape()[0] {
            let expected = format!("one label for each of {} images", images.shape()[0]);
            return Err(self.wrong_content(labels_at, expected, format!("{labels:?}")));
        }
        let n_rows = n_rows.unwrap_or(images.shape()[0]);
        labelled(images.first_rows(n_rows), labels.first_rows(n_rows))
    }

    fn wrong_content(&self, path: &Path, expected: String, found: String) -> DataError {
        DataError::WrongContent { path: path.to_path_buf(), set: self.name.to_string(), expected, found }
    }

    #[cfg(feature = "download")]
    fn download(&self, context: &LoadContext) -> Result<PathBuf, String> {
        if context.offline {
            return Err("downloads are off".to_string());
        }
        super::download::download(self, context, &super::download::Web::new())
    }

    #[cfg(not(feature = "download"))]
    fn download(&self, _: &LoadContext) -> Result<PathBuf, String> {
        Err("this build cannot download".to_string())
    }

    fn stand_in_note(&self, context: &LoadContext, why: &str) -> String {
        let folders = context.folders(self.name);
        let folders: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
        format!(
            "the built-in synthetic digits stand in for `{}`: it is not in {}, and {why}",
            self.name,
            folders.join(", ")
        )
    }
}

/// The file under one of the names it is spread under: with a hyphen or a dot before `idx`, gzipped or not.
fn find_file(dir: &Path, file: &str) -> Option<PathBuf> {
    let dotted = file.replace("-idx", ".idx");
    let names = [file.to_string(), format!("{file}.gz"), dotted.clone(), format!("{dotted}.gz")];
    // A dangling link is there, and is broken.
    names.iter().map(|name| dir.join(name)).find(|path| path.symlink_metadata().is_ok())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;

    use super::*;

    /// Writes a set of `n_train` and two rows into the folder, not gzipped; row `i` shows `i` in every pixel.
    fn write_set(dir: &Path, n_train: u8) {
        fs::create_dir_all(dir).unwrap();
        for (images, labels, n_rows) in [(FILES[0], FILES[1], n_train), (FILES[2], FILES[3], 2)] {
            let pixels: Vec<u8> = (0..n_rows).flat_map(|row| [row; 784]).collect();
            let header = [0, 0, 8, 3, 0, 0, 0, n_rows, 0, 0, 0, 28, 0, 0, 0, 28];
            fs::write(dir.join(images), [&header[..], &pixels].concat()).unwrap();
            let digits: Vec<u8> = (0..n_rows).map(|row| row % 10).collect();
            fs::write(dir.join(labels), [&[0, 0, 8, 1, 0, 0, 0, n_rows][..], &digits].concat()).unwrap();
        }
    }

    fn small(roots: &[&Path]) -> LoadContext {
        let roots = roots.iter().map(|root| root.to_path_buf()).collect();
        let options = vec![("n_train".into(), Attr::from(20)), ("n_test".into(), Attr::from(10))];
        LoadContext { roots, options, ..LoadContext::offline_in(Path::new("")) }
    }

    fn load(name: &str, context: &LoadContext) -> Result<DataSet, DataError> {
        Sources::with_builtin().load(name, context)
    }

    #[track_caller]
    fn check_error(outcome: Result<DataSet, DataError>, expected: &str) {
        let error = outcome.unwrap_err().to_string();
        assert!(error.ends_with(expected), "{error}");
    }

    #[test]
    fn files_are_found_in_the_folder_of_the_set_and_in_the_root() {
        let dir = tempfile::tempdir().unwrap();
        let nested = dir.path().join("all/mnist");
        write_set(&nested, 12);
        for root in [nested.parent().unwrap(), &nested] {
            let set = load("mnist", &small(&[root])).unwrap();
            assert_eq!((set.name.as_str(), set.note), ("mnist", None));
            assert_eq!(set.provenance, Provenance::Files { dir: nested.clone() });
            let train = set.splits["train"].fields();
            assert_eq!(format!("{train:?}"), r#"{"images": u8[12,28,28], "labels": u8[12]}"#);
            assert_eq!(train["images"].bytes()[784 * 11], 11);
            assert_eq!(train["labels"].bytes()[9..], [9, 0, 1]);
        }
    }

    #[test]
    fn the_first_root_that_has_the_set_wins() {
        let dir = tempfile::tempdir().unwrap();
        let [empty, first, second] = ["empty", "first", "second"].map(|name| dir.path().join(name));
        write_set(&first, 3);
        write_set(&second, 4);
        let set = load("mnist", &small(&[&empty, &first, &second])).unwrap();
        assert_eq!(set.split("train").unwrap().n_rows(), 3);
    }

    #[test]
    fn the_folder_of_one_set_is_not_read_as_another() {
        let dir = tempfile::tempdir().unwrap();
        let mnist = dir.path().join("mnist");
        write_set(&mnist, 3);
        let set = load("fashion-mnist", &small(&[&mnist])).unwrap();
        assert_eq!(set.provenance, Provenance::Synthetic);
    }

    #[test]
    fn a_missing_set_is_replaced_by_digits_and_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let set = load("mnist", &small(&[dir.path()])).unwrap();
        assert_eq!((set.name.as_str(), &set.provenance), ("synthetic-digits", &Provenance::Synthetic));
        assert_eq!((set.splits["train"].n_rows(), set.splits["test"].n_rows()), (20, 10));
        let root = dir.path().display();
        let expected = format!(
            "the built-in synthetic digits stand in for `mnist`: it is not in {root}/mnist, {root}, and downloads are off"
        );
        assert_eq!(set.note.unwrap(), expected);
    }

    #[test]
    fn what_is_there_but_broken_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let context = small(&[dir.path()]);
        let [images, labels, ..] = FILES.map(|file| dir.path().join(file));

        write_set(dir.path(), 3);
        fs::remove_file(&labels).unwrap();
        check_error(
            load("mnist", &context),
            "has `train-images-idx3-ubyte` but neither `train-labels-idx1-ubyte` nor `train-labels-idx1-ubyte.gz`; \
             complete the set or move it away",
        );

        write_set(dir.path(), 3);
        fs::write(&images, &fs::read(&images).unwrap()[..1000]).unwrap();
        check_error(
            load("mnist", &context),
            "at byte 1000: the header says 2352 bytes of data but the file has 984",
        );

        write_set(dir.path(), 3);
        fs::write(&images, [0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0]).unwrap();
        check_error(load("mnist", &context), "u8[1,1,1] was read where the set `mnist` has u8[N,28,28]");

        write_set(dir.path(), 3);
        fs::write(&labels, [0, 0, 8, 1, 0, 0, 0, 2, 1, 1]).unwrap();
        check_error(
            load("mnist", &context),
            "u8[2] was read where the set `mnist` has one label for each of 3 images",
        );

        #[cfg(unix)]
        {
            fs::remove_file(&labels).unwrap();
            std::os::unix::fs::symlink("nowhere", &labels).unwrap();
            let error = load("mnist", &context).unwrap_err().to_string();
            assert!(error.contains("train-labels-idx1-ubyte: cannot be read: "), "{error}");
        }
    }

    #[test]
    fn rows_can_be_limited() {
        let dir = tempfile::tempdir().unwrap();
        write_set(dir.path(), 30);
        let set = load("mnist", &small(&[dir.path()])).unwrap();
        assert_eq!((set.splits["train"].n_rows(), set.splits["test"].n_rows()), (20, 2));
    }

    #[test]
    fn options_are_checked() {
        let with = |name: &str, value| LoadContext { options: vec![(name.into(), value)], ..small(&[]) };
        check_error(
            load("mnist", &with("rows", Attr::from(1))),
            "option `rows`: there is no such option, there are: n_train, n_test",
        );
        for value in [Attr::from(0), Attr::from(-1), Attr::from(1 << 40), Attr::from(3.0), Attr::from(true)] {
            let error = load("synthetic-digits", &with("n_train", value)).unwrap_err().to_string();
            assert!(error.contains("a whole number from 1 to 1000000 was expected"), "{error}");
        }
    }

    #[test]
    fn names_that_are_not_there_are_listed_with_those_that_are() {
        check_error(
            load("minst", &small(&[])),
            "there is no data source `minst`, there are: mnist, fashion-mnist, synthetic-digits, vectors",
        );
        let set = load("synthetic-digits", &small(&[])).unwrap();
        let split = set.split("valid").unwrap_err().to_string();
        assert_eq!(split, "data set `synthetic-digits` has no split `valid`, it has: train, test");
        let field = set.splits["test"].field("pixels").unwrap_err().to_string();
        assert_eq!(field, "the data has no field `pixels`, it has: images, labels");
    }

    struct Ramp;

    impl Source for Ramp {
        fn name(&self) -> &str {
            "ramp"
        }
        fn summary(&self) -> &str {
            "numbers that rise"
        }
        fn load(&self, _: &LoadContext) -> Result<DataSet, DataError> {
            let x = HostTensor::from_slice(&[3], &[0.0f32, 1.0, 2.0])?;
            let train = Split::new(IndexMap::from([("x".to_string(), x)]))?;
            let splits = IndexMap::from([("train".to_string(), train)]);
            Ok(DataSet { name: "ramp".to_string(), provenance: Provenance::Synthetic, note: None, splits })
        }
    }

    #[test]
    fn plugins_add_sources() {
        let mut sources = Sources::with_builtin();
        sources.register(Ramp).unwrap();
        assert_eq!(sources.load("ramp", &small(&[])).unwrap().splits["train"].n_rows(), 3);
        assert_eq!(sources.iter().last().unwrap().summary(), "numbers that rise");
        let twice = sources.register(Ramp).unwrap_err().to_string();
        assert_eq!(twice, "there is a data source `ramp` already");
    }

    #[test]
    fn fields_of_a_split_have_the_same_rows() {
        let rows = |n_rows| HostTensor::from_slice(&[n_rows], &vec![0u8; n_rows]).unwrap();
        let split = |fields: &[(&str, HostTensor)]| {
            Split::new(fields.iter().map(|(name, tensor)| (name.to_string(), tensor.clone())).collect())
        };
        let uneven = split(&[("x", rows(3)), ("y", rows(2))]).unwrap_err().to_string();
        assert_eq!(uneven, "field `y` has 2 rows, the first field has 3");
        let scalar = split(&[("x", rows(3)), ("y", HostTensor::scalar(0u8))]).unwrap_err().to_string();
        assert_eq!(scalar, "field `y` has no rows, the first field has 3");
        assert!(matches!(split(&[]), Err(DataError::NoRows)));
    }
}
