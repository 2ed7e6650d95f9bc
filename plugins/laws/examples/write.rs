//! Writes the rows of `houses` and `choices` to files, for other programs: `cargo run -p engine-laws --example write DIR`.
//! `houses_validation.npy` has the numbers of the rows that `validation: 0.1` takes.

use std::error::Error;
use std::fs::{self, File};
use std::path::Path;

use engine_laws::{Choices, Houses};
use engine_runtime::data::npy;
use engine_runtime::data::source::{LoadContext, Source, Sources};

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args().nth(1).ok_or("name a folder")?;
    let dir = Path::new(&dir);
    fs::create_dir_all(dir)?;
    let context = LoadContext::offline_in(dir);
    let texts = Houses::texts(&context)?;
    for (split, text) in &texts {
        fs::write(dir.join(format!("houses_{split}.csv")), text)?;
    }
    let n_rows = texts["train"].lines().count() as i64 - 1;
    let options = vec![("n_train".into(), n_rows.into()), ("validation".into(), 0.1.into())];
    let numbers = Sources::with_builtin().load("numbers", &LoadContext { options, ..context.clone() })?;
    let taken = numbers.splits["validation"].tensor("number")?;
    npy::write(&taken, &mut File::create(dir.join("houses_validation.npy"))?)?;
    for (split, rows) in &Choices.load(&context)?.splits {
        for (field, column) in rows.fields() {
            npy::write(
                &column.tensor()?,
                &mut File::create(dir.join(format!("choices_{split}_{field}.npy")))?,
            )?;
        }
    }
    Ok(())
}
