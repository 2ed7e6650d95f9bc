//! The equation of an einsum: its letters, checked against the operands.

use engine_core::ir::{DType, Dim, Type};
use engine_core::op::TypeIssue;

/// The number of a label. Axes of one label go together.
pub type Label = usize;

/// The most labels; sets of them are words of 64 bits.
const MOST_LABELS: usize = 64;

/// An equation with the extents of its labels.
#[derive(Debug)]
pub struct Equation {
    /// The label of each axis, by operand.
    pub operands: Vec<Vec<Label>>,
    /// The label of each axis of the result.
    pub output: Vec<Label>,
    /// The extent of each label.
    pub extents: Vec<Dim>,
}

/// The name of a label: a letter, or the place of an axis of `...`, counted from the last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Rest(std::cmp::Reverse<usize>),
    Letter(char),
}

/// Letters before and after `...`, if there is one.
struct Term<'t> {
    before: &'t str,
    after: Option<&'t str>,
}

impl Equation {
    /// Reads an equation for operands of these types.
    ///
    /// # Errors
    /// If it is malformed, or does not fit the operands.
    pub fn read(text: &str, types: &[Type]) -> Result<Equation, TypeIssue> {
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let (inputs, output) = match text.split_once("->") {
            Some((inputs, output)) => (inputs, Some(output)),
            None => (text.as_str(), None),
        };
        let terms = inputs.split(',').map(Term::read).collect::<Result<Vec<_>, _>>()?;
        if terms.len() != types.len() {
            let message = format!("the equation has {} operands, {} are given", terms.len(), types.len());
            return Err(issue(message).help("separate the letters of operands by commas"));
        }
        let named: Vec<Vec<Name>> = (0..terms.len())
            .map(|i| terms[i].names(&types[i]).map_err(|issue| issue.at(i, format!("this is {}", types[i]))))
            .collect::<Result<_, _>>()?;
        let mut names: Vec<Name> = named.concat();
        names.sort();
        names.dedup();
        if names.len() > MOST_LABELS {
            return Err(issue(format!("the operands have {} axes that differ", names.len()))
                .help(format!("the most are {MOST_LABELS}")));
        }
        let output = match output {
            Some(output) => explicit(&Term::read(output)?, &names)?,
            None => implicit(&named, &names),
        };
        let label = |name: &Name| names.binary_search(name).unwrap_or_default();
        let labels = |term: &Vec<Name>| term.iter().map(label).collect();
        let operands: Vec<Vec<Label>> = named.iter().map(labels).collect();
        let extents = extents(&operands, &names, types)?;
        Ok(Equation { operands, output: labels(&output), extents })
    }

    /// The type of the result.
    pub fn result(&self, dtype: DType) -> Type {
        Type { dtype, shape: self.output.iter().map(|&label| self.extents[label].clone()).collect() }
    }
}

impl Term<'_> {
    fn read(text: &str) -> Result<Term<'_>, TypeIssue> {
        let (before, after) = match text.split_once("...") {
            Some((before, after)) => (before, Some(after)),
            None => (text, None),
        };
        let letters = before.chars().chain(after.unwrap_or_default().chars());
        match letters.into_iter().find(|c| !c.is_ascii_alphabetic()) {
            None => Ok(Term { before, after }),
            Some(other) => Err(issue(format!("`{other}` in `{text}` names no axis"))
                .help("axes have letters from a to z or A to Z; `...` stands once for all others")),
        }
    }

    /// Names of the axes of an operand.
    fn names(&self, ty: &Type) -> Result<Vec<Name>, TypeIssue> {
        let n_letters = self.before.len() + self.after.unwrap_or_default().len();
        let n_rest = ty.rank().checked_sub(n_letters);
        match n_rest {
            Some(n_rest) if n_rest == 0 || self.after.is_some() => Ok(self.with_rest(n_rest)),
            _ => Err(issue(format!("{n_letters} letters do not name the axes of {ty}"))
                .help("give a letter for each axis; `...` stands for all others")),
        }
    }

    fn with_rest(&self, n_rest: usize) -> Vec<Name> {
        let letters = |text: &str| text.chars().map(Name::Letter).collect::<Vec<_>>();
        let rest = (0..n_rest).rev().map(|from_end| Name::Rest(std::cmp::Reverse(from_end)));
        letters(self.before).into_iter().chain(rest).chain(letters(self.after.unwrap_or_default())).collect()
    }
}

fn issue(message: impl Into<String>) -> TypeIssue {
    TypeIssue::new(message.into()).at_setting("equation")
}

/// The axes of a written result.
fn explicit(term: &Term, names: &[Name]) -> Result<Vec<Name>, TypeIssue> {
    let n_rest = names.iter().filter(|name| matches!(name, Name::Rest(_))).count();
    let output = term.with_rest(if term.after.is_some() { n_rest } else { 0 });
    for (i, name) in output.iter().enumerate() {
        let Name::Letter(letter) = name else { continue };
        if !names.contains(name) {
            return Err(issue(format!("no operand has the axis `{letter}` of the result")));
        }
        if output[..i].contains(name) {
            return Err(issue(format!("the result names the axis `{letter}` twice"))
                .help("`diag` puts a vector on a diagonal"));
        }
    }
    Ok(output)
}

/// The axes of a result that is not written: those of `...`, and all letters that stand once.
fn implicit(operands: &[Vec<Name>], names: &[Name]) -> Vec<Name> {
    let count = |name: &Name| operands.iter().flatten().filter(|other| *other == name).count();
    let is_kept = |name: &&Name| matches!(name, Name::Rest(_)) || count(name) == 1;
    names.iter().filter(is_kept).copied().collect()
}

/// The extent of each label. Extents of 1 repeat.
fn extents(operands: &[Vec<Label>], names: &[Name], types: &[Type]) -> Result<Vec<Dim>, TypeIssue> {
    let mut extents = vec![Dim::Fixed(1); names.len()];
    for (i, (labels, ty)) in operands.iter().zip(types).enumerate() {
        for (place, (&label, dim)) in labels.iter().zip(&ty.shape).enumerate() {
            let twice = labels[..place].iter().position(|other| *other == label);
            if twice.is_some_and(|other| ty.shape[other] != *dim) || !agree(&mut extents[label], dim) {
                let name = match names[label] {
                    Name::Letter(letter) => format!("`{letter}`"),
                    Name::Rest(_) => "`...`".to_owned(),
                };
                let message = format!("the axis {name} has the extents {} and {dim}", extents[label]);
                return Err(issue(message).at(i, format!("this is {ty}")));
            }
        }
    }
    Ok(extents)
}

/// Whether an extent goes with the others, which it may replace.
fn agree(known: &mut Dim, dim: &Dim) -> bool {
    if *known == Dim::Fixed(1) {
        *known = dim.clone();
    }
    *dim == Dim::Fixed(1) || dim == known
}
