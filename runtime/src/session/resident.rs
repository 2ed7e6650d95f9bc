//! Data sets on the device.

use std::sync::Arc;

use engine_core::ir::Symbol;
use engine_core::pipeline::SplitRef;
use engine_core::stage::SplitShape;
use indexmap::IndexMap;

use super::background::{Background, Task};
use super::error::SessionError;
use crate::data::field::Field;
use crate::data::source::{DataError, DataSet, Split};
use crate::device::{Device, DeviceBuffer, DeviceError};

/// The data sets of a pipeline, and those of their splits that have gone to the device.
pub(super) struct Resident {
    sets: IndexMap<Symbol, DataSet>,
    uploads: IndexMap<SplitKey, Upload>,
}

type SplitKey = (Symbol, Symbol);
/// Buffers by field.
type Fields = IndexMap<String, DeviceBuffer>;

enum Upload {
    Underway(Task<Result<Fields, DeviceError>>),
    Done(Fields),
}

impl Resident {
    pub(super) fn new(sets: IndexMap<Symbol, DataSet>) -> Self {
        Resident { sets, uploads: IndexMap::new() }
    }

    pub(super) fn sets(&self) -> &IndexMap<Symbol, DataSet> {
        &self.sets
    }

    /// The set of that name in the pipeline.
    pub(super) fn set(&self, data: &Symbol) -> Option<&DataSet> {
        self.sets.get(data)
    }

    /// The types of a split.
    pub(super) fn shape(&self, split: &SplitRef) -> Result<SplitShape, SessionError> {
        Ok(split_shape(&split.data, self.split(split)?))
    }

    /// Starts to send a split to the device, unless that has been done.
    pub(super) fn prefetch(
        &mut self,
        split: &SplitRef,
        device: &Arc<dyn Device>,
        background: &Background,
    ) -> Result<(), SessionError> {
        let key = (split.data.clone(), split.split.clone());
        if !self.uploads.contains_key(&key) {
            let (rows, device) = (self.split(split)?.clone(), Arc::clone(device));
            let task = background.start(move || upload(&rows, &*device));
            self.uploads.insert(key, Upload::Underway(task));
        }
        Ok(())
    }

    /// Waits until the split is on the device.
    pub(super) fn wait(&mut self, split: &SplitRef) -> Result<(), SessionError> {
        let key = (split.data.clone(), split.split.clone());
        match self.uploads.swap_remove(&key) {
            Some(Upload::Underway(task)) => {
                let fields = task.wait().unwrap_or_else(|| engine_core::bug!("the upload panicked"))?;
                self.uploads.insert(key, Upload::Done(fields));
            }
            Some(done @ Upload::Done(_)) => {
                self.uploads.insert(key, done);
            }
            None => {}
        }
        Ok(())
    }

    /// The buffer of an input `DATA.FIELD` that was waited for.
    pub(super) fn buffer(&self, split: &SplitRef, input: &str) -> Option<&DeviceBuffer> {
        let field = input.strip_prefix(&*split.data)?.strip_prefix('.')?;
        match self.uploads.get(&(split.data.clone(), split.split.clone()))? {
            Upload::Done(fields) => fields.get(field),
            Upload::Underway(_) => None,
        }
    }

    /// The field of a split that an input `DATA.FIELD` names.
    pub(super) fn field(&self, split: &SplitRef, input: &str) -> Option<&Field> {
        let field = input.strip_prefix(&*split.data)?.strip_prefix('.')?;
        self.split(split).ok()?.field(field).ok()
    }

    /// Bytes of a split; none if some rows are computed.
    pub(super) fn bytes(&self, split: &SplitRef) -> Result<Option<usize>, SessionError> {
        Ok(self.split(split)?.fields().values().map(Field::bytes).sum())
    }

    /// Whether some rows of a split are in a file that is not read into memory.
    pub(super) fn is_on_disk(&self, split: &SplitRef) -> Result<bool, SessionError> {
        Ok(self.split(split)?.fields().values().any(Field::is_on_disk))
    }

    /// The rows of a split.
    pub(super) fn split(&self, split: &SplitRef) -> Result<&Split, SessionError> {
        let set = self.sets.get(&split.data).ok_or_else(|| DataError::NoSet { data: split.data.to_string() });
        set.and_then(|set| set.split(&split.split))
            .map_err(|source| SessionError::Data { data: split.data.clone(), source: Box::new(source) })
    }
}

/// The types of a split of the set called `data` in the pipeline.
pub fn split_shape(data: &Symbol, split: &Split) -> SplitShape {
    let fields = split.fields().iter().map(|(name, field)| (name.as_str().into(), field.row_type()));
    let n_rows = split.n_rows();
    SplitShape { data: data.clone(), n_rows, n_held: n_rows, fields: fields.collect() }
}

fn upload(split: &Split, device: &dyn Device) -> Result<Fields, DeviceError> {
    let mut fields = Fields::new();
    for (name, field) in split.fields() {
        if field.is_on_disk() {
            fields.insert(name.clone(), upload_parts(name, field, device)?);
            continue;
        }
        let tensor = &field.tensor().map_err(|error| DeviceError::Failed(error.to_string()))?;
        let copied = || {
            let buffer = device.allocate(tensor.bytes().len()).map_err(|error| error.of_buffer(name))?;
            device.write(&buffer, 0, tensor.bytes()).map(|()| buffer)
        };
        let buffer = device.share(tensor).map_or_else(copied, Ok)?;
        fields.insert(name.clone(), buffer);
    }
    Ok(fields)
}

/// Bytes of a part of the rows of a file on their way to the device.
const PART_BYTES: usize = 64 << 20;

/// Sends the rows of a file, which are never all in memory.
fn upload_parts(name: &str, field: &Field, device: &dyn Device) -> Result<DeviceBuffer, DeviceError> {
    let (row_bytes, n_rows) = (field.row_type().bytes(), field.n_rows().unwrap_or_default());
    let buffer = device.allocate(row_bytes * n_rows).map_err(|error| error.of_buffer(name))?;
    let n_each = (PART_BYTES / row_bytes.max(1)).clamp(1, n_rows.max(1));
    let mut part = vec![0; n_each * row_bytes];
    for first in (0..n_rows).step_by(n_each) {
        let rows: Vec<i32> = (first..n_rows.min(first + n_each)).map(|row| row as i32).collect();
        let part = &mut part[..rows.len() * row_bytes];
        field.copy(0, &rows, part);
        device.write(&buffer, first * row_bytes, part)?;
    }
    Ok(buffer)
}
