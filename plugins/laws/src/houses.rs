//! The source `houses`.

use std::fmt::Write;

use engine_core::ir::DType;
use engine_runtime::data::rows::Reading;
use engine_runtime::data::source::{
    DataError, DataSet, LoadContext, Source, reading_of_table, table_of_texts,
};
use engine_runtime::philox::WordStream;
use indexmap::IndexMap;

use crate::draws::{OPTIONS, Part, normal, others, parts, unit};

/// Houses with their prices as CSV, read as the source `csv` reads files, with its options.
///
/// A price, in thousands, is the product of the law and noise. The column `law` holds the former:
///
/// `city · area^0.95 · (1 - 0.3·min(age, 80)/80) · exp(-0.03·distance) · heating`
///
/// The logarithm of the noise is normal with deviation `NOISE`. Some cells of `area`, `year` and `heating` are empty. The
/// year of an old house is missing more often, so a gap says something about the price.
pub struct Houses;

/// The deviation of the logarithm of a price from that of its law.
pub const NOISE: f64 = 0.08;
const N_TRAIN: usize = 8000;
const N_TEST: usize = 4000;
const DOMAIN: u32 = 0x484f_5553;

impl Source for Houses {
    fn name(&self) -> &str {
        "houses"
    }

    fn summary(&self) -> &str {
        "prices of houses by a known law, as a CSV table with gaps and categories; options of `csv`; needs no file"
    }

    fn divides(&self) -> bool {
        true
    }

    fn reading(&self, context: &LoadContext) -> Result<Reading, DataError> {
        reading_of_table(&others(context))
    }

    fn load(&self, context: &LoadContext) -> Result<DataSet, DataError> {
        let texts = Houses::texts(context)?;
        match context.types.is_empty() {
            true => table_of_texts(self.name(), &texts, &OPTIONS, &with_all_fields(context)),
            false => table_of_texts(self.name(), &texts, &OPTIONS, context),
        }
    }
}

/// The context of a load without a pipeline, which lists the fields: with a type for each.
fn with_all_fields(context: &LoadContext) -> LoadContext {
    let classes = ["city", "heating"].map(|field| (field.into(), DType::I32));
    let numbers = ["features", "price", "law"].map(|field| (field.into(), DType::F32));
    let mut listing = LoadContext { types: [&classes[..], &numbers].concat(), ..context.clone() };
    listing.options.push(("missing".into(), "indicator".into()));
    listing
}

impl Houses {
    /// The text of each split.
    ///
    /// # Errors
    /// If an option is not understood.
    pub fn texts(context: &LoadContext) -> Result<IndexMap<String, String>, DataError> {
        let (parts, seed) = parts(context, N_TRAIN, N_TEST)?;
        Ok(parts.iter().map(|part| (part.name.to_string(), text(seed, part))).collect())
    }
}

/// Thousands per square metre.
const CITIES: [(&str, f64); 12] = [
    ("Basel", 9.9),
    ("Bern", 9.4),
    ("Chur", 8.2),
    ("Fribourg", 7.6),
    ("Geneva", 16.2),
    ("Lausanne", 12.9),
    ("Lugano", 10.0),
    ("Luzern", 11.4),
    ("Sion", 6.7),
    ("St. Gallen", 7.4),
    ("Winterthur", 10.3),
    ("Zurich", 18.1),
];
const HEATINGS: [(&str, f64); 4] = [("district", 1.03), ("gas", 1.0), ("heat pump", 1.07), ("oil", 0.95)];
const THIS_YEAR: f64 = 2025.0;

/// The rows of a split, below a line of names.
fn text(seed: u64, part: &Part) -> String {
    let mut text = String::from("area,rooms,year,distance,city,heating,price,law\n");
    for row in 0..part.n_rows {
        add_house(&mut WordStream::new(seed, DOMAIN, part.item(row)), &mut text);
    }
    text
}

fn add_house(stream: &mut WordStream, text: &mut String) {
    let (city, of_city) = CITIES[stream.below(CITIES.len() as u32) as usize];
    let (heating, of_heating) = HEATINGS[stream.below(HEATINGS.len() as u32) as usize];
    let area = libm::round(105.0 * libm::exp(0.35 * normal(stream))).clamp(30.0, 400.0);
    let rooms = libm::round(2.0 * (area / 28.0 + 0.5 * normal(stream))).clamp(2.0, 20.0) / 2.0;
    let year = THIS_YEAR - libm::floor(130.0 * unit(stream) * unit(stream));
    let distance = libm::round(10.0 * (0.3 + 14.0 * unit(stream) * unit(stream))) / 10.0;
    let age = (THIS_YEAR - year).min(80.0) / 80.0;
    let law = of_city * libm::pow(area, 0.95) * (1.0 - 0.3 * age) * libm::exp(-0.03 * distance) * of_heating;
    let price = law * libm::exp(NOISE * normal(stream));
    let mut gap = |share: f64, cell: String| if unit(stream) < share { String::new() } else { cell };
    let area = gap(0.05, area.to_string());
    let year = gap(if age > 0.6 { 0.3 } else { 0.05 }, year.to_string());
    let heating = gap(0.08, heating.to_string());
    // Writing to a text does not fail.
    let _ = writeln!(text, "{area},{rooms},{year},{distance},{city},{heating},{price:.1},{law:.3}");
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::path::Path;

    use engine_core::ir::Attr;

    use super::*;

    fn load(options: &[(&str, Attr)], fields: &[(&str, DType)]) -> DataSet {
        let options = options.iter().map(|(name, value)| ((*name).into(), value.clone())).collect();
        let types = fields.iter().map(|(name, dtype)| ((*name).into(), *dtype)).collect();
        Houses.load(&LoadContext { options, types, ..LoadContext::offline_in(Path::new("")) }).unwrap()
    }

    #[test]
    fn prices_are_near_their_law() {
        let fields = [("price", DType::F64), ("law", DType::F64)];
        let set = load(&[], &fields);
        let column = |field: &str| set.splits["test"].tensor(field).unwrap().to_f64();
        let errors: Vec<f64> =
            column("price").iter().zip(column("law")).map(|(price, law)| libm::log(price / law)).collect();
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        let variance = errors.iter().map(|error| error * error).sum::<f64>() / errors.len() as f64;
        assert!(mean.abs() < 4.0 * NOISE / (N_TEST as f64).sqrt(), "{mean}");
        assert!((variance.sqrt() / NOISE - 1.0).abs() < 0.05, "{variance}");
    }

    #[test]
    fn fields_are_listed_without_a_pipeline() {
        let set = load(&[("n_train", 100.into())], &[]);
        let fields = r#"{"features": f32[100,6], "city": i32[100], "heating": i32[100], "price": f32[100], "law": f32[100]}"#;
        assert_eq!(format!("{:?}", set.splits["train"].fields()), fields);
    }

    /// Figures of benches/houses_torch.py and graphs depend on these rows.
    #[test]
    fn rows_are_fixed_for_good() {
        let (parts, _) = parts(&LoadContext::offline_in(Path::new("")), 3, 1).unwrap();
        let rows = parts.map(|part| text(0, &part));
        assert_eq!(rows[0].lines().nth(3).unwrap(), "211,8,2017,0.4,Sion,heat pump,1038.6,1109.397");
        assert_eq!(rows[1].lines().nth(1).unwrap(), "92,3.5,,0.3,Luzern,gas,727.1,794.877");
    }

    #[test]
    fn gaps_and_names_are_treated_as_those_of_csv() {
        let options =
            [("missing", "indicator".into()), ("standardize", true.into()), ("n_train", 500.into())];
        let set = load(
            &options,
            &[
                ("features", DType::F32),
                ("heating", DType::I32),
                ("city", DType::I32),
                ("law", DType::F32),
                ("price", DType::F32),
            ],
        );
        assert_eq!(format!("{:?}", set.splits["train"].fields()["features"]), "f32[500,6]");
        assert_eq!((set.names["city"].classes.len(), set.names["heating"].classes.len()), (12, 4));
    }
}
