//! The sources of data sets, which are an open set, and the look-up of files on disk.
//!
//! A source finds its files in the folders that [`LoadContext::folders`] lists. Files in them are used or are an error.
//! Some sources download missing sets, or generate data in their place; [`DataSet::note`] says so.

mod files;
mod images;
mod memory;
mod numbers;
mod picture;
mod tables;
mod text;
mod validation;
mod vectors;

mod context;
mod error;
mod interface;
mod set;
#[cfg(test)]
mod tests;

pub use super::forms::{ColumnForm, FieldNames};
pub use context::LoadContext;
pub use error::DataError;
pub use interface::Source;
pub use memory::InMemory;
pub use set::{DataSet, Provenance, Split};
pub use tables::{reading_of_table, table_of_texts};

use std::path::Path;
use std::sync::Arc;

use engine_core::pipeline::DataDecl;
use indexmap::IndexMap;

use super::rows::Reading;

use files::Files;
use numbers::Numbers;
use text::Text;
use validation::VALIDATION;
use vectors::Vectors;

/// The sources that pipelines can name, in order of registration.
#[derive(Default)]
pub struct Sources {
    by_name: IndexMap<String, Arc<dyn Source>>,
}

impl Sources {
    /// The built-in sources alone.
    pub fn with_builtin() -> Self {
        let mut sources = Sources::default();
        sources.add_builtin();
        sources
    }

    /// Adds the built-in sources, which read the user's files or generate numbers.
    pub fn add_builtin(&mut self) {
        let builtin: [Arc<dyn Source>; 7] = [
            Arc::new(Files),
            Arc::new(tables::CSV),
            Arc::new(tables::JSONL),
            Arc::new(images::Images),
            Arc::new(Text),
            Arc::new(Vectors),
            Arc::new(Numbers),
        ];
        self.by_name.extend(builtin.map(|source| (source.name().to_string(), source)));
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

    /// Loads the source of that name. The option `validation` applies to every source: it moves a share of the rows of the
    /// split `train` to a split `validation`, unless the [source divides](Source::divides) them itself.
    ///
    /// # Errors
    /// If there is no such source, it fails, or its rows cannot be divided by the share.
    pub fn load(&self, name: &str, context: &LoadContext) -> Result<DataSet, DataError> {
        let source = self.get(name)?;
        let share = context.share(VALIDATION)?;
        let mut set = match share.filter(|share| *share > 0.0 && !source.divides()) {
            Some(share) => {
                let own = context.options.iter().filter(|(option, _)| &**option != VALIDATION);
                let set = source.load(&LoadContext { options: own.cloned().collect(), ..context.clone() })?;
                validation::divided(set, share)?
            }
            None => source.load(context)?,
        };
        set.empty_splits.extend((share == Some(0.0)).then(|| VALIDATION.to_string()));
        Ok(set)
    }

    /// The settings by which `engine predict` reads rows for an input of this data source.
    ///
    /// # Errors
    /// If there is no such source, or one of its options is not understood.
    pub fn reading(&self, decl: &DataDecl) -> Result<Reading, DataError> {
        let context = LoadContext { options: decl.options.clone(), ..LoadContext::offline_in(Path::new("")) };
        self.get(&decl.source)?.reading(&context)
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
