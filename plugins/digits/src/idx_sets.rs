//! The sources `mnist` and `fashion-mnist`, in IDX files.

use std::path::{Path, PathBuf};

use engine_runtime::data::field::Field;
use engine_runtime::data::idx;
use engine_runtime::data::remote::RemoteSet;
use engine_runtime::data::source::{DataError, DataSet, LoadContext, Provenance, Source, Split};
use indexmap::IndexMap;

use crate::drawing;
use crate::synthetic::{MOST_ROWS, described, draw_digits, images_type, labelled};

const ROW_OPTIONS: [&str; 2] = ["n_train", "n_test"];

/// A set of 28×28 images in ten classes that is published as four gzipped IDX files.
pub struct IdxSet {
    name: &'static str,
    summary: &'static str,
    /// Folders on the web that hold the four files.
    mirrors: &'static [&'static str],
    /// SHA-256 of the four gzipped files, in the order of [`FILES`].
    sha256: [&'static str; 4],
}

/// The files of every such set: images and labels to learn from, then to judge by.
pub(crate) const FILES: [&str; 4] = [
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
];

/// The handwritten digits by LeCun, Cortes and Burges.
pub const MNIST: IdxSet = IdxSet {
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

/// The pictures of clothes by Zalando.
pub const FASHION_MNIST: IdxSet = IdxSet {
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
            Err(why) => {
                let folders = context.folders(self.name);
                let folders: Vec<String> =
                    folders.iter().map(|folder| folder.display().to_string()).collect();
                let why = format!("it is not in {}, and {why}", folders.join(", "));
                let (provenance, note) =
                    context.stand_in("the built-in synthetic digits", self.name, &why)?;
                draw_digits(drawing::DEFAULT_SEED, context, (provenance, Some(note)))
            }
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
        let train = self.read_split(train_images, train_labels, n_train, context.types_only)?;
        let test = self.read_split(test_images, test_labels, n_test, context.types_only)?;
        let splits = IndexMap::from([("train".to_string(), train), ("test".to_string(), test)]);
        Ok(DataSet { splits, ..DataSet::new(self.name, provenance) })
    }

    fn read_split(
        &self,
        images_at: &Path,
        labels_at: &Path,
        n_rows: Option<usize>,
        types_only: bool,
    ) -> Result<Split, DataError> {
        let [images, labels]: [Field; 2] = match types_only {
            true => [idx::describe_images(images_at)?, idx::describe_labels(labels_at)?],
            false => {
                let images = idx::read_images(images_at)?;
                [images.into(), idx::read_labels(labels_at, drawing::N_CLASSES)?.into()]
            }
        };
        if images.row_type() != images_type() {
            return Err(self.wrong_content(images_at, "u8[N,28,28]".to_string(), format!("{images:?}")));
        }
        let n_images = images.n_rows().unwrap_or_default();
        if labels.n_rows() != Some(n_images) {
            let expected = format!("one label for each of {n_images} images");
            return Err(self.wrong_content(labels_at, expected, format!("{labels:?}")));
        }
        let n_rows = n_rows.map_or(n_images, |n_rows| n_rows.min(n_images));
        match types_only {
            true => described(n_rows),
            false => labelled(images.first_rows(n_rows)?, labels.first_rows(n_rows)?),
        }
    }

    fn wrong_content(&self, path: &Path, expected: String, found: String) -> DataError {
        DataError::WrongContent { path: path.to_path_buf(), set: self.name.to_string(), expected, found }
    }

    fn download(&self, context: &LoadContext) -> Result<PathBuf, String> {
        let IdxSet { name, mirrors, sha256, .. } = self;
        RemoteSet { name, files: &FILES, mirrors, sha256 }.fetch(context)
    }
}

/// The file under one of its usual names: with a hyphen or a dot before `idx`, gzipped or not.
fn find_file(dir: &Path, file: &str) -> Option<PathBuf> {
    let dotted = file.replace("-idx", ".idx");
    let names = [file.to_string(), format!("{file}.gz"), dotted.clone(), format!("{dotted}.gz")];
    // A dangling link is there, and is broken.
    names.iter().map(|name| dir.join(name)).find(|path| path.symlink_metadata().is_ok())
}
