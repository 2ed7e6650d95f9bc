//! Values of inputs.

use crate::diag::{Code, Diagnostics, Sources};
use crate::front::{Ron, RonKind, parse_ron};
use crate::ir::Literal;
use crate::pipeline::Given;

/// `"values.npy"`, `3`, `[[1, 2], [3, 4]]`
pub(super) fn read_given(value: &Ron, diags: &mut Diagnostics) -> Option<Given> {
    if let RonKind::Str(_) = &value.kind {
        return value.string("a path", diags).map(|path| Given::File(path.to_string()));
    }
    let (mut shape, mut elements) = (vec![], vec![]);
    read_elements(value, 0, &mut shape, &mut elements, diags)?;
    Some(Given::Elements { shape, elements })
}

/// Appends the elements of a list at some depth; all lists of one depth have the same number of items.
fn read_elements(
    value: &Ron,
    depth: usize,
    shape: &mut Vec<usize>,
    elements: &mut Vec<Literal>,
    diags: &mut Diagnostics,
) -> Option<()> {
    let is_list = matches!(value.kind, RonKind::List(_));
    let n_items = if is_list { value.items("a value", diags)?.len() } else { 0 };
    let is_first = elements.is_empty() && depth == shape.len();
    if is_first && is_list {
        shape.push(n_items);
    }
    let expected = shape.get(depth).copied();
    if expected != is_list.then_some(n_items) {
        let wanted = expected.map_or("a number here".to_owned(), |n| format!("a list of {n} here"));
        diags
            .error(Code::E0010, value.span, format!("expected {wanted}, as before in this value"))
            .help("rows must be equally long");
        return None;
    }
    if is_list {
        let items = value.items("a value", diags)?;
        return items.iter().try_for_each(|item| read_elements(item, depth + 1, shape, elements, diags));
    }
    elements.push(match &value.kind {
        RonKind::Bool(b) => Literal::Bool(*b),
        RonKind::Int(_) => Literal::Int(value.integer("an element", i64::MIN..=i64::MAX, diags)?),
        _ => Literal::Float(value.number("an element", diags)?),
    });
    Some(())
}

/// The value of an input as the command line has it: numbers as in a pipeline, or the name of a file.
///
/// # Errors
/// If it starts like numbers and is none; the text says why.
pub fn given_text(text: &str) -> Result<Given, String> {
    let (mut sources, mut diags) = (Sources::new(), Diagnostics::new());
    let is_written_out = text.starts_with('[');
    let file = sources.add("--input", text);
    let value = parse_ron(file, text, &mut diags);
    let is_element = matches!(value.kind, RonKind::Bool(_) | RonKind::Int(_) | RonKind::Float(_));
    if !is_written_out && (!is_element || diags.has_errors()) {
        return Ok(Given::File(text.to_owned()));
    }
    let given = read_given(&value, &mut diags).filter(|_| !diags.has_errors());
    given.ok_or_else(|| diags.sorted().first().map_or(String::new(), |first| first.message.clone()))
}
