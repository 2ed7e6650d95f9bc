//! `engine ops`: the reference, printed from the registry.

use engine_core::front::{LibraryText, layers, library_text};
use engine_core::op::{
    AttrKind, AttrSpec, Example, Grad, GradCheck, InputSpec, Lower, OpForm, Registry, Role,
};
use indexmap::IndexMap;
use std::sync::Arc;

use super::args::OpsArgs;
use super::output::{Failure, print};

pub(super) fn ops(registry: &Registry, args: &OpsArgs) -> Result<(), Failure> {
    match &args.name {
        Some(name) => match page_of(registry, name) {
            Some(page) => print(page),
            None => return Err(unknown(registry, name)),
        },
        None if args.markdown => print(markdown(registry).trim_end()),
        None => print(list(registry).trim_end()),
    }
    Ok(())
}

/// The page of an op or a layer. That of a layer ends with its definition.
pub(super) fn page_of(registry: &Registry, name: &str) -> Option<String> {
    let form = registry.op(name).or_else(|| layer(registry, name))?;
    let mut text = page(&form, &TEXT);
    if let Some(LibraryText { place, text: definition }) = library_text(registry, name) {
        section(&mut text, &format!("Definition in {place}"), [(TEXT.code)(&definition)].into_iter());
    }
    Some(text.trim_end().to_string())
}

/// The op or layer with the nearest name.
pub(super) fn nearest(registry: &Registry, name: &str) -> Option<String> {
    let layers = layers(registry);
    let layers = layers.iter().map(|form| form.name.as_str());
    let names = registry.ops().map(|form| form.name.as_str()).chain(layers);
    engine_core::diag::nearest(name, names).map(str::to_string)
}

/// The whole reference: `docs/ops.md`.
pub fn markdown(registry: &Registry) -> String {
    let mut text = "# Ops\n\nPrinted by `engine ops --markdown`; do not edit.\n".to_string();
    for (family, forms) in families(registry) {
        text.push_str(&format!("\n## {family}\n\n| op | effect |\n|---|---|\n"));
        for form in &forms {
            text.push_str(&format!("| [`{0}`](#{0}) | {1} |\n", form.name, form.summary));
        }
        forms.iter().for_each(|form| text.push_str(&format!("\n{}", page(form, &MARKDOWN))));
    }
    text
}

fn list(registry: &Registry) -> String {
    let mut text = String::new();
    for (family, forms) in families(registry) {
        text.push_str(&format!("{family}\n"));
        let width = forms.iter().map(|form| form.name.len()).max().unwrap_or(0);
        forms.iter().for_each(|form| text.push_str(&format!("  {:<width$}  {}\n", form.name, form.summary)));
        text.push('\n');
    }
    text
}

fn families(registry: &Registry) -> IndexMap<String, Vec<Arc<OpForm>>> {
    let mut families: IndexMap<String, Vec<Arc<OpForm>>> = IndexMap::new();
    for form in registry.ops().cloned().chain(layers(registry)) {
        families.entry(form.family.clone()).or_default().push(form);
    }
    families
}

fn layer(registry: &Registry, name: &str) -> Option<Arc<OpForm>> {
    layers(registry).into_iter().find(|form| form.name == name)
}

fn unknown(registry: &Registry, name: &str) -> Failure {
    let hint = match nearest(registry, name) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "`engine ops` lists them".to_string(),
    };
    Failure::graph(format!("there is no op `{name}`; {hint}"))
}

/// The layout of a page.
struct Layout {
    title: fn(&str) -> String,
    item: fn(&str, &str) -> String,
    code: fn(&str) -> String,
}

const TEXT: Layout = Layout {
    title: |signature| format!("{signature}\n\n"),
    item: |name, doc| format!("  {name}{}\n", described(doc)),
    code: |code| code.lines().map(|line| format!("  {line}\n")).collect(),
};

const MARKDOWN: Layout = Layout {
    title: |signature| {
        let name = signature.split('(').next().unwrap_or(signature);
        format!("### {name}\n\n`{signature}`\n\n")
    },
    item: |name, doc| format!("- `{name}`{}\n", described(doc)),
    code: |code| format!("```\n{}\n```\n", code.trim_end()),
};

/// The description behind a name; settings of functions have none.
fn described(doc: &str) -> String {
    if doc.is_empty() { String::new() } else { format!(": {doc}") }
}

fn page(form: &OpForm, layout: &Layout) -> String {
    let mut text = (layout.title)(&signature(form));
    text.push_str(&format!("{}\n", form.summary));
    section(
        &mut text,
        "Operands",
        form.inputs.iter().map(|input| (layout.item)(&input.name, &input_doc(input))),
    );
    section(
        &mut text,
        "Attributes",
        form.attrs.iter().map(|attr| (layout.item)(&attr_text(attr), &attr.doc)),
    );
    text.push_str(&format!("\nLowering: {}.\nGradient: {}.\n", lowering(form), gradient(form)));
    section(&mut text, "Examples", form.examples.iter().map(|example| example_text(form, example, layout)));
    text
}

fn section(text: &mut String, title: &str, items: impl Iterator<Item = String>) {
    let items: String = items.collect();
    if !items.is_empty() {
        text.push_str(&format!("\n{title}\n\n{items}"));
    }
}

/// `layer_norm(x, scale?, shift?, axis=-1, epsilon=1e-5) -> y`
fn signature(form: &OpForm) -> String {
    let operand = |input: &InputSpec| format!("{}{}", input.name, if input.optional { "?" } else { "" });
    let attr = |attr: &AttrSpec| match &attr.default {
        Some(default) => format!("{}={default}", attr.name),
        None => format!("{}=…", attr.name),
    };
    let arguments = form.inputs.iter().map(operand).chain(form.attrs.iter().map(attr));
    let arguments: Vec<String> = arguments.collect();
    format!("{}({}) -> {}", form.name, arguments.join(", "), form.outputs.join(", "))
}

fn input_doc(input: &InputSpec) -> String {
    let optional = input.optional.then_some("may be left out");
    let parts = [input.doc.as_str()].into_iter().filter(|doc| !doc.is_empty()).chain(optional);
    parts.collect::<Vec<_>>().join("; ")
}

fn attr_text(attr: &AttrSpec) -> String {
    let kind = match &attr.kind {
        AttrKind::Int => "integer".to_string(),
        AttrKind::Float | AttrKind::Bound => "number".to_string(),
        AttrKind::Bool => "true or false".to_string(),
        AttrKind::Mode => "true or false, by default as the stage says".to_string(),
        AttrKind::Str => "text".to_string(),
        AttrKind::Choice(words) => words.join(" | "),
        AttrKind::DType => "element type".to_string(),
        AttrKind::Ints => "integers".to_string(),
        AttrKind::Shape => "extents".to_string(),
        AttrKind::Element => "element of the result".to_string(),
    };
    let default = attr.default.as_ref().map_or(", required".to_string(), |default| format!(" = {default}"));
    format!("{} ({kind}){default}", attr.name)
}

fn lowering(form: &OpForm) -> String {
    let kind = match form.lower {
        Lower::Map(_) => "one scalar body over operands that broadcast",
        Lower::Expand(_) => "other ops and primitives",
        Lower::Kernel(_) => "a kernel of its own",
    };
    match &form.role {
        Role::Plain | Role::Function => kind.to_string(),
        Role::RowReduction(_) => {
            format!("{kind}, which folds rows: a product that only it reads is never stored")
        }
        Role::Optimizer { slots } if slots.is_empty() => format!("{kind}; an optimizer without state"),
        Role::Optimizer { slots } => format!("{kind}; an optimizer with state {}", slots.join(", ")),
    }
}

fn gradient(form: &OpForm) -> String {
    let rule = match &form.grad {
        Grad::Derive => "follows from the lowering",
        Grad::Rule(_) => "has a rule of its own",
        Grad::None { why } => return format!("none, {why}"),
    };
    match &form.check {
        GradCheck::FiniteDifferences { range: (low, high), .. } => {
            format!("{rule}; checked by finite differences on {low}..{high}")
        }
        GradCheck::Convention { why, .. } => format!("{rule}; by convention: {why}"),
        GradCheck::None { why } => format!("{rule}; not checked: {why}"),
    }
}

fn example_text(form: &OpForm, example: &Example, layout: &Layout) -> String {
    let mut code = String::new();
    for (name, (ty, values)) in ('a'..).zip(&example.inputs) {
        code.push_str(&format!("{name}: {ty} = {}\n", numbers(values)));
    }
    code.push_str(&format!("{}\n", example.call));
    for (name, (ty, values)) in form.outputs.iter().zip(&example.outputs) {
        code.push_str(&format!("-> {name}: {ty} = {}\n", numbers(values)));
    }
    format!("{}:\n{}", capitalised(example.title), (layout.code)(&code))
}

fn numbers(values: &[f64]) -> String {
    let numbers: Vec<String> = values.iter().map(f64::to_string).collect();
    format!("[{}]", numbers.join(", "))
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
