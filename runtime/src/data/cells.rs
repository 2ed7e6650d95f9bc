//! Cells of a text as elements of a tensor: exact where the element type can be, refused with their place where not.

use std::path::Path;

use engine_core::ir::DType;
use half::{bf16, f16};

use super::fault::{BadCell, CellFault, TableError, name_text, shortened};
use crate::tensor::HostTensor;

/// The treatment of rows with a missing cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// The file is refused.
    #[default]
    Refuse,
    /// The row is left out.
    Drop,
    /// The cell is NaN.
    Nan,
    /// The cell gets the mean of its column in the training rows, or the most frequent name.
    Fill,
    /// As `Fill`, and columns with such cells in the training rows get an element that marks them.
    Indicate,
}

/// The treatment of cells without a finite number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Cells that are empty or say that a value is missing.
    pub missing: Missing,
    /// Whether `inf`, `-inf` and `nan` are taken as numbers.
    pub non_finite: bool,
}

impl Policy {
    /// Whether missing cells get a value from the training rows.
    pub(crate) fn fills(&self) -> bool {
        matches!(self.missing, Missing::Fill | Missing::Indicate)
    }

    /// Whether a cell says that its value is missing.
    pub fn is_missing(&self, text: &str) -> bool {
        let says_nan = || text.eq_ignore_ascii_case("nan");
        let takes_nan = self.non_finite && !self.fills();
        is_missing_word(text) || (!takes_nan && says_nan())
    }
}

/// Whether a cell is empty or a usual word for a missing value.
fn is_missing_word(text: &str) -> bool {
    text.is_empty() || ["NA", "N/A", "null"].iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Where a cell stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'p> {
    pub(super) path: &'p Path,
    /// Counted from 1.
    pub(super) line: usize,
    /// Counted from 0.
    pub(super) column: usize,
    /// The column's name, if the file has names.
    pub(super) name: Option<&'p str>,
}

impl Place<'_> {
    pub(super) fn fault(&self, fault: CellFault) -> TableError {
        TableError::Cell(Box::new(BadCell {
            path: self.path.to_path_buf(),
            line: self.line,
            column: self.column + 1,
            name: self.name.map(str::to_string),
            fault,
        }))
    }

    fn text(&self) -> String {
        let (path, line) = (self.path.display(), self.line);
        format!("{path}:{line}: column {}{}", self.column + 1, name_text(self.name))
    }
}

/// Bytes of a part of the elements: a multiple of the size of each type.
const PART_BYTES: usize = 1 << 20;

/// Elements of one type that are read from cells.
pub(crate) struct Cells {
    dtype: DType,
    policy: Policy,
    /// The elements in parts of equal size, since growing one allocation would copy it.
    parts: Vec<Vec<u8>>,
    /// The first whole number that the type rounds, with its place.
    rounded: Option<String>,
    n_rounded: usize,
}

impl Cells {
    pub(crate) fn new(dtype: DType, policy: Policy) -> Self {
        Cells { dtype, policy, parts: vec![], rounded: None, n_rounded: 0 }
    }

    /// Appends a cell.
    pub(super) fn push(&mut self, place: &Place<'_>, text: &str) -> Result<(), TableError> {
        let n_rounded = self.n_rounded;
        self.take(text).map_err(|fault| place.fault(fault))?;
        if self.n_rounded > n_rounded && self.rounded.is_none() {
            self.rounded =
                Some(format!("{}: {text} becomes {} in {}", place.text(), self.last_float(), self.dtype));
        }
        Ok(())
    }

    /// Appends a cell without a place.
    pub(crate) fn take(&mut self, text: &str) -> Result<(), CellFault> {
        let number = self.number(text)?;
        if !self.store(number) {
            return Err(CellFault::Unfit { text: shortened(text), dtype: self.dtype });
        }
        if let Number::Whole(n) = number
            && self.dtype.is_float()
            && self.last_float() as i128 != n
        {
            self.n_rounded += 1;
        }
        Ok(())
    }

    /// How many whole numbers the element type has rounded.
    pub(crate) fn n_rounded(&self) -> usize {
        self.n_rounded
    }

    fn number(&self, text: &str) -> Result<Number, CellFault> {
        if self.policy.is_missing(text) {
            return match self.policy.missing {
                Missing::Nan if self.dtype.is_float() => Ok(Number::Float(f64::NAN)),
                _ => Err(CellFault::Missing(text.to_string())),
            };
        }
        if let Some(n) = text.parse::<i128>().ok().or_else(|| whole(text)) {
            return Ok(Number::Whole(n));
        }
        let number = text.parse::<f64>().map_err(|_| CellFault::NotANumber(shortened(text)))?;
        let is_written_out = text.contains(|c: char| c.is_ascii_digit());
        match number.is_finite() {
            true => Ok(Number::Float(number)),
            false if is_written_out => Err(CellFault::Unfit { text: shortened(text), dtype: self.dtype }),
            false if self.policy.non_finite => Ok(Number::Float(number)),
            false => Err(CellFault::NotFinite(text.to_string())),
        }
    }

    /// Appends a number; whether the element type has it, rounded if it is a float.
    fn store(&mut self, number: Number) -> bool {
        let (float, whole) = match number {
            Number::Whole(n) => (n as f64, Some(n)),
            Number::Float(x) => (x, Some(x as i128).filter(|&n| n as f64 == x)),
        };
        let fits = |narrow: f64| narrow.is_finite() || !float.is_finite();
        if self.parts.last().is_none_or(|part| part.len() == PART_BYTES) {
            // A small file takes little.
            self.parts.push(Vec::with_capacity(if self.parts.is_empty() { 0 } else { PART_BYTES }));
        }
        let mut put = |element: &[u8]| {
            self.parts.last_mut().is_some_and(|part| {
                part.extend_from_slice(element);
                true
            })
        };
        match self.dtype {
            DType::Bool => as_int::<u8>(whole).is_some_and(|n| n <= 1 && put(&[n])),
            DType::F16 => fits(f16::from_f64(float).to_f64()) && put(&f16::from_f64(float).to_le_bytes()),
            DType::BF16 => fits(bf16::from_f64(float).to_f64()) && put(&bf16::from_f64(float).to_le_bytes()),
            DType::F32 => fits(f64::from(float as f32)) && put(&(float as f32).to_le_bytes()),
            DType::F64 => put(&float.to_le_bytes()),
            dtype => {
                let n = as_int::<i64>(whole).filter(|&n| dtype.wrap(n) == n);
                n.is_some_and(|n| put(&n.to_le_bytes()[..dtype.size()]))
            }
        }
    }

    /// The float that was appended last.
    fn last_float(&self) -> f64 {
        fn last<const N: usize>(parts: &[Vec<u8>]) -> [u8; N] {
            parts.last().and_then(|part| part.last_chunk().copied()).unwrap_or([0; N])
        }
        match self.dtype {
            DType::F16 => f16::from_le_bytes(last(&self.parts)).to_f64(),
            DType::BF16 => bf16::from_le_bytes(last(&self.parts)).to_f64(),
            DType::F32 => f32::from_le_bytes(last(&self.parts)).into(),
            _ => f64::from_le_bytes(last(&self.parts)),
        }
    }

    /// The remark on whole numbers that the element type rounds.
    pub(super) fn rounded_note(&self) -> Option<String> {
        let first = self.rounded.as_ref()?;
        let more = match self.n_rounded {
            1 => String::new(),
            n => format!(" (and {} more)", n - 1),
        };
        Some(format!("{first}{more}; an input of type i64 or f64 keeps such numbers"))
    }

    /// The elements under a shape of as many.
    pub(crate) fn tensor(mut self, shape: &[usize]) -> Result<HostTensor, TableError> {
        // The last part is seldom full.
        if let Some(last) = self.parts.last_mut() {
            last.shrink_to_fit();
        }
        Ok(HostTensor::from_parts(self.dtype, shape, self.parts)?)
    }
}

/// The content of a cell.
#[derive(Clone, Copy)]
enum Number {
    Whole(i128),
    Float(f64),
}

/// The whole number that is written as a float with all its digits: `16777217.0` or `1.6777217e7`, but not `2e7`, which
/// may be rounded already. Zero is left to floats, which have its sign.
fn whole(text: &str) -> Option<i128> {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (start, fraction) = mantissa.split_once('.')?;
    let (end, rest) = fraction.split_at_checked(exponent.parse().ok()?)?;
    if rest.bytes().any(|digit| digit != b'0') {
        return None;
    }
    let number: i128 = match end {
        "" => start.parse().ok()?,
        _ => format!("{start}{end}").parse().ok()?,
    };
    (number != 0).then_some(number)
}

fn as_int<T: TryFrom<i128>>(whole: Option<i128>) -> Option<T> {
    T::try_from(whole?).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn push(cells: &mut Cells, text: &str) -> Result<(), TableError> {
        cells.push(&Place { path: Path::new("a.csv"), line: 7, column: 1, name: Some("id") }, text)
    }

    fn read(dtype: DType, policy: Policy, text: &str) -> Result<HostTensor, String> {
        let mut cells = Cells::new(dtype, policy);
        push(&mut cells, text).map_err(|error| error.to_string())?;
        Ok(cells.tensor(&[1]).unwrap())
    }

    #[test]
    fn cells_that_are_no_numbers_are_refused_with_their_place() {
        let refused = |dtype, text: &str| read(dtype, Policy::default(), text).unwrap_err();
        let at = |message: &str| format!("a.csv:7: column 2 (`id`): {message}");
        assert_eq!(refused(DType::F64, ""), at("the value is missing"));
        assert_eq!(refused(DType::F64, "NA"), at("the value is missing (`NA`)"));
        assert_eq!(refused(DType::F64, "NaN"), at("the value is missing (`NaN`)"));
        assert_eq!(refused(DType::F64, "-inf"), at("`-inf` is not a finite number"));
        assert_eq!(refused(DType::F64, "1e999"), at("1e999 is no f64"));
        assert_eq!(refused(DType::F32, "1e39"), at("1e39 is no f32"));
        assert_eq!(refused(DType::F16, "65520"), at("65520 is no f16"));
        assert_eq!(refused(DType::I32, "0.5"), at("0.5 is no i32"));
        assert_eq!(refused(DType::Bool, "2"), at("2 is no bool"));
        assert_eq!(refused(DType::I8, "128"), at("128 is no i8"));
        assert_eq!(refused(DType::I16, "-32769"), at("-32769 is no i16"));
        assert_eq!(refused(DType::U16, "-1"), at("-1 is no u16"));
        assert_eq!(refused(DType::U8, "four"), at("`four` is not a number"));
    }

    #[test]
    fn cells_have_the_requested_type() {
        let non_finite = Policy { non_finite: true, ..Policy::default() };
        assert_eq!(read(DType::F32, non_finite, "-inf").unwrap().to_f64(), [f64::NEG_INFINITY]);
        assert!(read(DType::F32, non_finite, "nan").unwrap().to_f64()[0].is_nan());
        assert_eq!(
            read(DType::F64, non_finite, "1e999").unwrap_err().rsplit(": ").next(),
            Some("1e999 is no f64")
        );
        let missing = Policy { missing: Missing::Nan, ..Policy::default() };
        assert!(read(DType::F64, missing, "n/a").unwrap().to_f64()[0].is_nan());
        assert!(read(DType::I64, missing, "").is_err());
    }

    #[test]
    fn rounded_integers_are_noted() {
        let mut cells = Cells::new(DType::F32, Policy::default());
        ["16777216", "16777217", "16777218", "0.1", "20000001"]
            .iter()
            .for_each(|text| push(&mut cells, text).unwrap());
        let message = "a.csv:7: column 2 (`id`): 16777217 becomes 16777216 in f32 (and 1 more); an input of type i64 or \
                    f64 keeps such numbers";
        assert_eq!(cells.rounded_note().unwrap(), message);
    }

    #[test]
    fn whole_numbers_are_whole_however_they_are_written() {
        let is_told = |dtype, text: &str| {
            let mut cells = Cells::new(dtype, Policy::default());
            push(&mut cells, text).unwrap();
            cells.rounded_note().is_some()
        };
        for text in
            ["16777217.0", "-16777217.", "+16777217.000", "1.6777217e7", "1.677721700e+07", "16777217.0E0"]
        {
            assert!(is_told(DType::F32, text), "{text}");
            assert!(!is_told(DType::F64, text), "{text}");
        }
        for text in ["16777216.0", "16777217.5", "0.1", "1e30", "6.02e23", "-0.0", "1.6777217e-7"] {
            assert!(!is_told(DType::F32, text), "{text}");
        }
        assert!(is_told(DType::F64, "9007199254740993.0"));
        let held = read(DType::I64, Policy::default(), "9007199254740993.0").unwrap();
        assert_eq!(held.as_slice::<i64>().unwrap(), [9007199254740993]);
        assert!(read(DType::F32, Policy::default(), "-0.0").unwrap().to_f64()[0].is_sign_negative());
    }

    proptest! {
        /// A number is held exactly, or reported, or refused.
        #[test]
        fn no_whole_number_changes_in_silence(
            n: i64, small in -70_000i64..70_000, pick: bool, tail in prop::sample::select(vec!["", ".", ".0", ".00e0"])
        ) {
            let n = if pick { n } else { small };
            for dtype in DType::ALL {
                let mut cells = Cells::new(dtype, Policy::default());
                if push(&mut cells, &format!("{n}{tail}")).is_err() {
                    continue;
                }
                let is_told = cells.rounded_note().is_some();
                let held = cells.tensor(&[1]).unwrap();
                let held = match dtype {
                    DType::I64 => i128::from(held.as_slice::<i64>().unwrap()[0]),
                    _ => held.to_f64()[0] as i128,
                };
                prop_assert_eq!(held != i128::from(n), is_told);
            }
        }
    }
}
