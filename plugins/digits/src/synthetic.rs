//! The source `synthetic-digits`.

use engine_core::ir::{DType, Type};
use engine_runtime::data::field::Field;
use engine_runtime::data::source::{DataError, DataSet, LoadContext, Provenance, Source, Split};
use indexmap::IndexMap;

use crate::drawing::{self, Part};

/// The most rows of a split. More rows would fill gigabytes after a typing error.
pub(crate) const MOST_ROWS: usize = 1_000_000;

/// The built-in digits, with options `n_train`, `n_test` and `seed`.
pub struct SyntheticDigits;

impl Source for SyntheticDigits {
    fn name(&self) -> &str {
        "synthetic-digits"
    }

    fn summary(&self) -> &str {
        "28×28 digits drawn by the program, 60,000 to learn from and 10,000 to judge by; needs no file"
    }

    fn load(&self, context: &LoadContext) -> Result<DataSet, DataError> {
        context.check_options(&["n_train", "n_test", "seed"])?;
        let seed =
            context.count("seed", i64::MAX as usize)?.map_or(drawing::DEFAULT_SEED, |seed| seed as u64);
        draw_digits(seed, context, (Provenance::Synthetic, None))
    }
}

pub(crate) fn draw_digits(
    seed: u64,
    context: &LoadContext,
    (provenance, note): (Provenance, Option<String>),
) -> Result<DataSet, DataError> {
    let n_train = context.count("n_train", MOST_ROWS)?.unwrap_or(drawing::N_TRAIN);
    let n_test = context.count("n_test", MOST_ROWS)?.unwrap_or(drawing::N_TEST);
    let mut splits = IndexMap::new();
    for (name, part, n_rows) in [("train", Part::Train, n_train), ("test", Part::Test, n_test)] {
        let split = match context.types_only {
            true => described(n_rows)?,
            false => {
                let drawn = drawing::draw(seed, part, n_rows)?;
                labelled(drawn.images, drawn.labels)?
            }
        };
        splits.insert(name.to_string(), split);
    }
    let (name, names) = (SyntheticDigits.name().to_string(), IndexMap::new());
    Ok(DataSet { note, splits, names, ..DataSet::new(name, provenance) })
}

pub(crate) fn labelled(images: impl Into<Field>, labels: impl Into<Field>) -> Result<Split, DataError> {
    Split::new(IndexMap::from([("images".to_string(), images.into()), ("labels".to_string(), labels.into())]))
}

/// A split without its rows.
pub(crate) fn described(n_rows: usize) -> Result<Split, DataError> {
    let label = Type::new(DType::U8, &[]);
    labelled(Field::described(images_type(), n_rows), Field::described(label, n_rows))
}

/// The type of an image.
pub(crate) fn images_type() -> Type {
    Type::new(DType::U8, &[drawing::SIDE, drawing::SIDE])
}
