//! The source `files`: fields from files that the pipeline names.

use std::path::{Path, PathBuf};

use engine_core::ir::{Attr, DType};
use indexmap::IndexMap;

use super::{DataError, DataSet, FieldNames, LoadContext, Provenance, Source, Split};
use crate::data::field::Field;
use crate::data::rows::Reading;
use crate::data::table;

/// One field for each option, whose value is the name of its file.
pub(super) struct Files;

pub(super) const SPLITS: &str = "splits";
/// Stands for the name of a split in the name of a file.
const SPLIT: &str = "{split}";

impl Source for Files {
    fn name(&self) -> &str {
        "files"
    }

    fn summary(&self) -> &str {
        "a field for each option, from its file: .npy, ARCHIVE.npz/ARRAY, IDX, .fvecs, .fbin and their like, or CSV of numbers"
    }

    fn load(&self, context: &LoadContext) -> Result<DataSet, DataError> {
        let fields: Vec<(&str, &str)> = context
            .options
            .iter()
            .filter(|(name, _)| &**name != SPLITS)
            .map(|(name, _)| Ok((&**name, context.text(name)?.unwrap_or_default())))
            .collect::<Result<_, DataError>>()?;
        if fields.is_empty() {
            return Err(DataError::BadOption {
                name: "images".to_string(),
                expected: "the name of a file, as does every other field of the data".to_string(),
                found: "left out".to_string(),
            });
        }
        let splits = split_names(context, &fields)?;
        let mut set = empty_set(self.name(), &expect(context, fields[0].1, &splits[0])?);
        for split in splits {
            let mut read: IndexMap<String, Field> = IndexMap::new();
            for (field, file) in &fields {
                let dtype = context.dtype(field).unwrap_or(DType::F32);
                // Where both have names, the columns of a split are those of the first one.
                let reading = Reading { dtype, names: set.names.get(*field).cloned(), ..Reading::default() };
                let path = expect(context, file, &split)?;
                if let Some(rows) = context.on_disk(&path)? {
                    read.insert(field.to_string(), rows);
                    continue;
                }
                let rows = table::read_rows(&path, &reading)?;
                rows.notes.into_iter().for_each(|note| set.add_note(note));
                if let Some(columns) = rows.columns.names.filter(|_| !set.names.contains_key(*field)) {
                    let names = FieldNames { columns, ..FieldNames::default() };
                    set.names.insert(field.to_string(), names);
                }
                read.insert(field.to_string(), rows.tensor.into());
            }
            set.splits.insert(split, Split::new(read)?);
        }
        Ok(set)
    }
}

/// The splits that the option `splits` names; without it `train` and `test` if names of files speak of splits.
/// `files` are the options that name files, with these names.
pub(super) fn split_names(context: &LoadContext, files: &[(&str, &str)]) -> Result<Vec<String>, DataError> {
    let has_split = |file: &str| file.contains(SPLIT);
    let names = match context.text(SPLITS)? {
        Some(names) => names,
        None if files.iter().any(|(_, file)| has_split(file)) => "train, test",
        None => "train",
    };
    let names: Vec<String> =
        names.split(',').map(|name| name.trim().to_string()).filter(|name| !name.is_empty()).collect();
    let bad = |name: &str, expected: &str, found: &str| DataError::BadOption {
        name: name.to_string(),
        expected: expected.to_string(),
        found: Attr::from(found).to_string(),
    };
    if names.is_empty() {
        return Err(bad(SPLITS, "names with commas between them", ""));
    }
    match files.iter().find(|(_, file)| names.len() > 1 && !has_split(file)) {
        Some((option, file)) => {
            Err(bad(option, "a name in which `{split}` stands for the split, as there are several", file))
        }
        None => Ok(names),
    }
}

/// The file of a split.
pub(super) fn expect(context: &LoadContext, file: &str, split: &str) -> Result<PathBuf, DataError> {
    context.expect(Path::new(&file.replace(SPLIT, split)))
}

/// A set of files without rows, named after the folder of a file.
pub(super) fn empty_set(source: &str, file: &Path) -> DataSet {
    let dir = file.parent().unwrap_or(Path::new("")).to_path_buf();
    let name = dir.file_name().map_or(source.into(), |folder| folder.to_string_lossy()).to_string();
    DataSet::new(name, Provenance::Files { dir })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;

    use super::*;
    use crate::data::{npy, results};
    use crate::tensor::HostTensor;

    fn context(dir: &Path, options: &[(&str, &str)]) -> LoadContext {
        let options = options.iter().map(|(name, text)| ((*name).into(), Attr::from(*text))).collect();
        LoadContext { options, ..LoadContext::offline_in(dir) }
    }

    #[test]
    fn fields_come_from_files_of_all_formats() {
        let dir = tempfile::tempdir().unwrap();
        let x = HostTensor::from_slice(&[2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        for split in ["train", "test"] {
            npy::write(&x, &mut fs::File::create(dir.path().join(format!("{split}.npy"))).unwrap()).unwrap();
            results::write(&x, &dir.path().join(format!("{split}.fvecs"))).unwrap();
            fs::write(dir.path().join(format!("{split}.csv")), "y\n7\n8.5\n").unwrap();
            fs::write(dir.path().join(format!("{split}.idx")), [0, 0, 8, 1, 0, 0, 0, 2, 7, 8]).unwrap();
        }
        let files =
            [("a", "{split}.npy"), ("b", "{split}.fvecs"), ("c", "{split}.csv"), ("d", "{split}.idx")];
        let set = Files.load(&context(dir.path(), &files)).unwrap();
        assert_eq!(set.splits.keys().collect::<Vec<_>>(), ["train", "test"]);
        let expected = r#"{"a": f32[2,3], "b": f32[2,3], "c": f32[2,1], "d": u8[2]}"#;
        assert_eq!(format!("{:?}", set.splits["test"].fields()), expected);
        assert_eq!(set.splits["train"].tensor("c").unwrap().to_f64(), [7.0, 8.5]);

        let one = Files.load(&context(dir.path(), &[("x", "train.npy")])).unwrap();
        assert_eq!(one.splits.keys().collect::<Vec<_>>(), ["train"]);
        let several = [("x", "{split}.npy"), ("splits", "test, train")];
        let several = Files.load(&context(dir.path(), &several)).unwrap();
        assert_eq!(several.splits.keys().collect::<Vec<_>>(), ["test", "train"]);
    }

    #[test]
    fn files_that_are_missing_or_do_not_go_together_are_named() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("x.csv"), "1\n2\n").unwrap();
        fs::write(dir.path().join("y.csv"), "1\n2\n3\n").unwrap();
        let error =
            |options: &[(&str, &str)]| Files.load(&context(dir.path(), options)).unwrap_err().to_string();
        let dir_text = dir.path().display();
        assert_eq!(error(&[("x", "{split}.csv")]), format!("`train.csv` is not in {dir_text}"));
        assert_eq!(error(&[("x", "a.npz/b")]), format!("`a.npz/b` is not in {dir_text}"));
        assert_eq!(error(&[("x", "x.csv"), ("y", "y.csv")]), "field `y` has 3 rows, the first field has 2");
        assert_eq!(error(&[("x", "x.csv"), ("splits", "a,b")]), "option `x` cannot be \"x.csv\"");
        assert_eq!(error(&[("splits", "a")]), "option `images` cannot be left out");
        assert_eq!(error(&[("x", "x.csv"), ("splits", ",")]), "option `splits` cannot be \"\"");
    }
}
