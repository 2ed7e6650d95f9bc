//! Numbers of RON.

use super::tree::RonKind;
use crate::text::lex::is_name_char;
use crate::work::steps;

pub(super) fn special_float(word: &str) -> Option<f64> {
    match word {
        "inf" | "inff32" | "inff64" => Some(f64::INFINITY),
        "nan" | "NaN" | "NaNf32" | "NaNf64" => Some(f64::NAN),
        _ => None,
    }
}

/// Length of everything that looks like one number: digits, letters, dots, and signs at the front or in an exponent.
pub(super) fn number_len(text: &str) -> usize {
    let unsigned = text.trim_start_matches(['+', '-']);
    let has_exponent = !["0x", "0o", "0b"].iter().any(|prefix| unsigned.starts_with(prefix));
    let mut previous = ' ';
    let len = unsigned.find(|c| {
        let signs_exponent = has_exponent && matches!((previous, c), ('e' | 'E', '+' | '-'));
        previous = c;
        !(is_name_char(c) || c == '.' || signs_exponent)
    });
    let len = text.len() - unsigned.len() + len.unwrap_or(unsigned.len());
    steps(len);
    len
}

pub(super) fn read_number(text: &str) -> Result<RonKind, &'static str> {
    let (negative, digits) = match text.as_bytes()[0] {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let sign = if negative { -1.0 } else { 1.0 };
    if let Some(value) = special_float(digits) {
        return Ok(RonKind::Float(sign * value));
    }
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if let Some(digits) = digits.strip_prefix(prefix) {
            return read_integer(negative, digits, radix);
        }
    }
    let (body, narrow) = match digits.strip_suffix("f32") {
        Some(body) => (body, true),
        None => (digits.strip_suffix("f64").unwrap_or(digits), false),
    };
    let is_float = body.len() < digits.len() || body.contains(['.', 'e', 'E']);
    if is_float { read_float(sign, body, narrow) } else { read_integer(negative, digits, 10) }
}

fn read_float(sign: f64, body: &str, narrow: bool) -> Result<RonKind, &'static str> {
    const WRONG: &str = "a number looks like `0.5` or `1e-3`";
    let mut previous = '.';
    let mut plain = String::with_capacity(body.len());
    for c in body.chars() {
        match c {
            '_' if previous == '.' => return Err("`_` may only follow a digit"),
            '_' => (),
            '+' | '-' if matches!(previous, 'e' | 'E') => (),
            '0'..='9' | '.' | 'e' | 'E' => previous = c,
            _ => return Err(WRONG),
        }
        if c != '_' {
            plain.push(c);
        }
    }
    let value = match narrow {
        true => plain.parse::<f32>().map(f64::from),
        false => plain.parse::<f64>(),
    };
    match value {
        Ok(value) if value.is_infinite() => Err("this number is too large; an infinity is written `inf`"),
        Ok(value) => Ok(RonKind::Float(sign * value)),
        Err(_) => Err(WRONG),
    }
}

fn read_integer(negative: bool, text: &str, radix: u32) -> Result<RonKind, &'static str> {
    let (digits, suffix) = text.split_at(text.find(['i', 'u']).unwrap_or(text.len()));
    if digits.starts_with('_') {
        return Err("`_` may only follow a digit");
    }
    if !digits.chars().all(|c| c == '_' || c.is_digit(radix)) || digits.is_empty() {
        return Err(match radix {
            16 => "hexadecimal digits are 0 to 9 and a to f",
            8 => "octal digits are 0 to 7",
            2 => "binary digits are 0 and 1",
            _ => "a number has digits, and `_` between them, only",
        });
    }
    let plain: String = digits.chars().filter(|c| *c != '_').collect();
    let value = i128::from_str_radix(&plain, radix).map_err(|_| "this number is too large")?;
    let value = if negative { -value } else { value };
    let fits = match suffix {
        "" => true,
        "i8" => i8::try_from(value).is_ok(),
        "i16" => i16::try_from(value).is_ok(),
        "i32" => i32::try_from(value).is_ok(),
        "i64" => i64::try_from(value).is_ok(),
        "u8" => u8::try_from(value).is_ok(),
        "u16" => u16::try_from(value).is_ok(),
        "u32" => u32::try_from(value).is_ok(),
        "u64" => u64::try_from(value).is_ok(),
        _ => return Err("a number may end with its type, such as i32 or f64"),
    };
    if fits { Ok(RonKind::Int(value)) } else { Err("this number does not fit the type it ends with") }
}
