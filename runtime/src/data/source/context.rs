//! The context of a load: folders, permissions and the options of the pipeline.

use std::env;
use std::path::{Path, PathBuf};

use engine_core::ir::{Attr, DType, Literal, Symbol};

use super::{DataError, Provenance, VALIDATION};
use crate::data::field::Field;
use crate::data::table::{self, TableError, in_archive};

/// The folders, permissions and options with which a source loads data.
#[derive(Clone, Debug)]
pub struct LoadContext {
    /// Folders that hold data, in order of preference. Downloads go to the first.
    pub roots: Vec<PathBuf>,
    /// Whether the network must not be used.
    pub offline: bool,
    /// Whether generated data may stand in for a missing set.
    pub stand_in: bool,
    /// The options of the source in the pipeline.
    pub options: Vec<(Symbol, Attr)>,
    /// Element types that the pipeline declares for fields. Sources that read text use them; other sources have their own.
    pub types: Vec<(Symbol, DType)>,
    /// Files of so many bytes stay on disk, if a source can gather batches from there.
    pub least_on_disk: u64,
    /// Whether the caller asks for the types and numbers of rows alone, as `engine explain` does. A source may then
    /// [describe](Field::described) fields whose rows take time.
    pub types_only: bool,
    /// Receives a message before long work, such as a download.
    pub say: fn(&str),
}

/// The default of [`LoadContext::least_on_disk`].
const LEAST_ON_DISK: u64 = 1 << 30;

impl LoadContext {
    /// Searches `data_dir` (of the command line), `ENGINE_DATA_DIR`, then `data`. The network is off if `ENGINE_OFFLINE` is
    /// neither empty nor `0`. Files of `ENGINE_ON_DISK_MIB` mebibytes, if that is a number, stay on disk.
    pub fn from_env(data_dir: Option<&Path>) -> Self {
        let from_env = env::var_os("ENGINE_DATA_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from);
        let offline = env::var_os("ENGINE_OFFLINE").is_some_and(|value| !value.is_empty() && value != "0");
        let roots = [data_dir.map(Path::to_path_buf), from_env, Some(PathBuf::from("data"))];
        let roots = roots.into_iter().flatten().collect();
        let mebibytes = env::var("ENGINE_ON_DISK_MIB").ok().and_then(|text| text.parse::<u64>().ok());
        let least_on_disk = mebibytes.map_or(LEAST_ON_DISK, |mebibytes| mebibytes.saturating_mul(1 << 20));
        LoadContext { roots, offline, least_on_disk, ..LoadContext::empty() }
    }

    fn empty() -> Self {
        LoadContext {
            roots: vec![],
            offline: true,
            stand_in: true,
            options: vec![],
            types: vec![],
            least_on_disk: LEAST_ON_DISK,
            types_only: false,
            say: |_| {},
        }
    }

    /// Searches only the given folder, without the network.
    pub fn offline_in(dir: &Path) -> Self {
        LoadContext { roots: vec![dir.to_path_buf()], ..LoadContext::empty() }
    }

    /// The provenance of generated data `what` that stands in for a missing set, and the note for the user.
    ///
    /// # Errors
    /// If generated data is not allowed.
    pub fn stand_in(&self, what: &str, wanted: &str, why: &str) -> Result<(Provenance, String), DataError> {
        let wanted = wanted.to_string();
        match self.stand_in {
            true => {
                let note = format!("{what} stand in for `{wanted}`: {why}");
                Ok((Provenance::StandIn { wanted }, note))
            }
            false => Err(DataError::NoStandIn { wanted, why: why.to_string() }),
        }
    }

    /// The folders that may hold the files of a set: for each root, the folder with the set's name, then the root itself.
    pub fn folders(&self, set: &str) -> Vec<PathBuf> {
        self.roots.iter().flat_map(|root| [root.join(set), root.clone()]).collect()
    }

    /// The path of a file of the pipeline, under the first root that has it.
    pub fn find(&self, file: &Path) -> Option<PathBuf> {
        // An array of an archive exists if the archive does.
        let in_file = |path: &Path| in_archive(path).map_or(path, |(archive, _)| archive).to_path_buf();
        let mut places = self.roots.iter().map(|root| root.join(file));
        // A dangling link counts as found, and reading it reports the fault.
        places.find(|path| in_file(path).symlink_metadata().is_ok())
    }

    /// As [`find`](Self::find), for a required file.
    ///
    /// # Errors
    /// If no root has it.
    pub fn expect(&self, file: &Path) -> Result<PathBuf, DataError> {
        self.find(file)
            .ok_or_else(|| DataError::NotFound { file: file.to_path_buf(), roots: self.roots_text() })
    }

    /// The rows of a file that need not be in memory: those of a large one, or of any one for their types.
    pub(super) fn on_disk(&self, path: &Path) -> Result<Option<Field>, TableError> {
        table::on_disk(path, if self.types_only { 0 } else { self.least_on_disk })
    }

    /// The roots, for messages.
    pub fn roots_text(&self) -> String {
        let roots: Vec<String> = self.roots.iter().map(|root| root.display().to_string()).collect();
        roots.join(", ")
    }

    /// The option of that name as a share, from 0 on and less than 1.
    pub fn share(&self, name: &str) -> Result<Option<f64>, DataError> {
        match self.options.iter().find(|(option, _)| &**option == name) {
            None => Ok(None),
            Some((_, Attr::Lit(Literal::Float(share)))) if (0.0..1.0).contains(share) => Ok(Some(*share)),
            Some((_, Attr::Lit(Literal::Int(0)))) => Ok(Some(0.0)),
            Some((_, found)) => Err(DataError::BadOption {
                name: name.to_string(),
                expected: "a share from 0 on and below 1, such as 0.1".to_string(),
                found: found.to_string(),
            }),
        }
    }

    /// The option of that name as a count of at most `most`.
    pub fn count(&self, name: &str, most: usize) -> Result<Option<usize>, DataError> {
        let option = self.options.iter().find(|(option, _)| &**option == name);
        let Some((_, found)) = option else { return Ok(None) };
        let count = match found {
            Attr::Lit(Literal::Int(count)) => {
                usize::try_from(*count).ok().filter(|count| (1..=most).contains(count))
            }
            _ => None,
        };
        let bad = || DataError::BadOption {
            name: name.to_string(),
            expected: format!("a whole number from 1 to {most}"),
            found: found.to_string(),
        };
        count.map(Some).ok_or_else(bad)
    }

    /// The option of that name as a text.
    pub fn text(&self, name: &str) -> Result<Option<&str>, DataError> {
        match self.options.iter().find(|(option, _)| &**option == name) {
            None => Ok(None),
            Some((_, Attr::Str(text))) => Ok(Some(text)),
            Some((_, found)) => Err(DataError::BadOption {
                name: name.to_string(),
                expected: "a text".to_string(),
                found: found.to_string(),
            }),
        }
    }

    /// The option of that name as a Boolean.
    pub fn truth(&self, name: &str) -> Result<Option<bool>, DataError> {
        match self.options.iter().find(|(option, _)| &**option == name) {
            None => Ok(None),
            Some((_, Attr::Lit(Literal::Bool(value)))) => Ok(Some(*value)),
            Some((_, found)) => Err(DataError::BadOption {
                name: name.to_string(),
                expected: "`true` or `false`".to_string(),
                found: found.to_string(),
            }),
        }
    }

    /// The element type that the pipeline declares for a field.
    pub fn dtype(&self, field: &str) -> Option<DType> {
        self.types.iter().find(|(name, _)| &**name == field).map(|(_, dtype)| *dtype)
    }

    /// Fails on an option that is none of `known`.
    pub fn check_options(&self, known: &[&str]) -> Result<(), DataError> {
        match self.options.iter().find(|(name, _)| ![known, &[VALIDATION]].concat().contains(&&**name)) {
            None => Ok(()),
            Some((name, _)) => {
                let known = [known, &[VALIDATION]].concat().join(", ");
                Err(DataError::UnknownOption { name: name.to_string(), known })
            }
        }
    }
}
