//! Names, and extents: numbers, names that a plan binds, and polynomials of them.

use std::fmt;
use std::sync::Arc;

/// A shared, immutable name.
pub type Symbol = Arc<str>;

/// One extent of a shape. Equal polynomials have one form, so `B * T` equals `T * B`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Dim {
    /// A known number of elements.
    Fixed(usize),
    /// A name such as `B`, which a plan binds to a number.
    Named(Symbol),
    /// A polynomial of names, such as `2 * B * T + 1`, that is neither a number nor a name alone.
    Polynomial(Polynomial),
}

/// A sum of products of names, in canonical order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Polynomial(Arc<[Term]>);

/// `3 * B * T`: names in alphabetical order, repeated for powers. The factor is not 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Term {
    factor: i64,
    names: Vec<Symbol>,
}

impl Dim {
    /// The extent, if it is known.
    pub fn fixed(&self) -> Option<usize> {
        match self {
            Dim::Fixed(n) => Some(*n),
            Dim::Named(_) | Dim::Polynomial(_) => None,
        }
    }

    /// The name, if the extent is a name alone.
    pub fn name(&self) -> Option<&Symbol> {
        match self {
            Dim::Named(name) => Some(name),
            Dim::Fixed(_) | Dim::Polynomial(_) => None,
        }
    }

    /// `self + other`; nothing if the sum overflows.
    pub fn plus(&self, other: &Dim) -> Option<Dim> {
        Dim::of([self.terms()?, other.terms()?].concat())
    }

    /// `self - other`; nothing if the difference overflows or is negative.
    pub fn minus(&self, other: &Dim) -> Option<Dim> {
        let negated = other.terms()?.into_iter().map(|term| Term { factor: -term.factor, ..term });
        Dim::of(self.terms()?.into_iter().chain(negated).collect())
    }

    /// `self * other`; nothing if the product overflows.
    pub fn times(&self, other: &Dim) -> Option<Dim> {
        Dim::of(product(&self.terms()?, &other.terms()?)?)
    }

    /// The extent `q` with `q * divisor == self` for all values of the names; nothing if there is none.
    pub fn divided_by(&self, divisor: &Dim) -> Option<Dim> {
        let (whole, divisor) = (self.terms()?, divisor.terms()?);
        let leading = divisor.first()?;
        let mut rest = whole;
        let mut quotient = vec![];
        // Polynomial division: each round removes the leading term.
        while let Some(term) = rest.first() {
            let part = vec![term.divided_by(leading)?];
            let removed = product(&part, &divisor)?.into_iter();
            rest.extend(removed.map(|term| Term { factor: -term.factor, ..term }));
            rest = canonical(rest)?;
            quotient.extend(part);
        }
        Dim::of(quotient)
    }

    /// The product of extents; nothing if it overflows.
    pub fn product<'d>(dims: impl IntoIterator<Item = &'d Dim>) -> Option<Dim> {
        dims.into_iter().try_fold(Dim::Fixed(1), |product, dim| product.times(dim))
    }

    /// The extent with names replaced by the numbers that `extents` gives them; nothing if it becomes a negative number.
    pub fn bind(&self, extents: &[(Symbol, usize)]) -> Option<Dim> {
        let number =
            |name: &Symbol| extents.iter().find(|(known, _)| known == name).map(|(_, extent)| *extent);
        match self {
            Dim::Fixed(_) => Some(self.clone()),
            Dim::Named(name) => Some(number(name).map_or_else(|| self.clone(), Dim::Fixed)),
            Dim::Polynomial(polynomial) => {
                Dim::of(polynomial.0.iter().map(|term| term.bind(number)).collect::<Option<_>>()?)
            }
        }
    }

    /// The names in it, each once for each place.
    pub fn names(&self) -> Vec<&Symbol> {
        match self {
            Dim::Fixed(_) => vec![],
            Dim::Named(name) => vec![name],
            Dim::Polynomial(polynomial) => polynomial.0.iter().flat_map(|term| &term.names).collect(),
        }
    }

    fn terms(&self) -> Option<Vec<Term>> {
        Some(match self {
            Dim::Fixed(0) => vec![],
            Dim::Fixed(n) => vec![Term { factor: i64::try_from(*n).ok()?, names: vec![] }],
            Dim::Named(name) => vec![Term { factor: 1, names: vec![name.clone()] }],
            Dim::Polynomial(polynomial) => polynomial.0.to_vec(),
        })
    }

    fn of(terms: Vec<Term>) -> Option<Dim> {
        let terms = canonical(terms)?;
        match &terms[..] {
            [] => Some(Dim::Fixed(0)),
            [Term { factor, names }] if names.is_empty() => usize::try_from(*factor).ok().map(Dim::Fixed),
            [Term { factor: 1, names }] if names.len() == 1 => Some(Dim::Named(names[0].clone())),
            _ if terms.iter().all(|term| term.factor < 0) => None,
            _ => Some(Dim::Polynomial(Polynomial(terms.into()))),
        }
    }
}

impl Term {
    fn times(&self, other: &Term) -> Option<Term> {
        let mut names = [&self.names[..], &other.names].concat();
        names.sort();
        Some(Term { factor: self.factor.checked_mul(other.factor)?, names })
    }

    fn divided_by(&self, divisor: &Term) -> Option<Term> {
        let mut names = self.names.clone();
        for name in &divisor.names {
            names.remove(names.iter().position(|known| known == name)?);
        }
        let is_whole = self.factor.checked_rem(divisor.factor)? == 0;
        is_whole.then_some(Term { factor: self.factor / divisor.factor, names })
    }

    fn bind(&self, number: impl Fn(&Symbol) -> Option<usize>) -> Option<Term> {
        let mut bound = Term { factor: self.factor, names: vec![] };
        for name in &self.names {
            match number(name) {
                Some(n) => bound.factor = bound.factor.checked_mul(i64::try_from(n).ok()?)?,
                None => bound.names.push(name.clone()),
            }
        }
        Some(bound)
    }
}

fn product(left: &[Term], right: &[Term]) -> Option<Vec<Term>> {
    left.iter().flat_map(|a| right.iter().map(|b| a.times(b))).collect()
}

/// Terms of higher degree first, then in alphabetical order; equal products merged, zeros left out.
fn canonical(mut terms: Vec<Term>) -> Option<Vec<Term>> {
    terms.sort_by(|a, b| b.names.len().cmp(&a.names.len()).then_with(|| a.names.cmp(&b.names)));
    let mut merged: Vec<Term> = vec![];
    for term in terms {
        match merged.last_mut().filter(|last| last.names == term.names) {
            Some(last) => last.factor = last.factor.checked_add(term.factor)?,
            None => merged.push(term),
        }
    }
    merged.retain(|term| term.factor != 0);
    Some(merged)
}

impl From<usize> for Dim {
    fn from(n: usize) -> Dim {
        Dim::Fixed(n)
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Fixed(n) => write!(f, "{n}"),
            Dim::Named(name) => f.write_str(name),
            Dim::Polynomial(polynomial) => polynomial.fmt(f),
        }
    }
}

impl fmt::Display for Polynomial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A sum begins with a term that is added, as the grammar of types wants it.
        let (added, subtracted): (Vec<&Term>, Vec<&Term>) = self.0.iter().partition(|term| term.factor > 0);
        for (i, Term { factor, names }) in added.into_iter().chain(subtracted).enumerate() {
            f.write_str(match (i, *factor > 0) {
                (0, _) => "",
                (_, true) => " + ",
                (_, false) => " - ",
            })?;
            let magnitude = factor.unsigned_abs();
            let number = (magnitude != 1 || names.is_empty()).then(|| magnitude.to_string());
            let factors: Vec<&str> =
                number.iter().map(String::as_str).chain(names.iter().map(|name| &**name)).collect();
            f.write_str(&factors.join(" * "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn named(name: &str) -> Dim {
        Dim::Named(name.into())
    }

    #[test]
    fn equal_polynomials_have_one_form() {
        let (b, t) = (named("B"), named("T"));
        let sum = b.times(&t).unwrap().plus(&Dim::Fixed(3)).unwrap();
        assert_eq!(sum, Dim::Fixed(3).plus(&t.times(&b).unwrap()).unwrap());
        assert_eq!(sum.to_string(), "B * T + 3");
        assert_eq!(sum.minus(&Dim::Fixed(3)).unwrap().divided_by(&t), Some(b.clone()));
        let square = b.plus(&t).unwrap().times(&b.plus(&t).unwrap()).unwrap();
        assert_eq!(square.to_string(), "B * B + 2 * B * T + T * T");
        assert_eq!(square.divided_by(&b.plus(&t).unwrap()), b.plus(&t));
        assert_eq!(b.minus(&b), Some(Dim::Fixed(0)));
    }

    #[test]
    fn a_quotient_is_exact_or_none() {
        let b = named("B");
        assert_eq!(Dim::Fixed(12).divided_by(&Dim::Fixed(4)), Some(Dim::Fixed(3)));
        assert_eq!(Dim::Fixed(12).divided_by(&Dim::Fixed(5)), None);
        assert_eq!(Dim::Fixed(12).divided_by(&Dim::Fixed(0)), None);
        assert_eq!(b.divided_by(&Dim::Fixed(2)), None);
        assert_eq!(b.times(&Dim::Fixed(4)).unwrap().divided_by(&Dim::Fixed(2)), b.times(&Dim::Fixed(2)));
        assert_eq!(b.plus(&Dim::Fixed(1)).unwrap().divided_by(&b), None);
    }

    #[test]
    fn binding_gives_numbers_that_are_not_negative() {
        let rest = named("B").minus(&Dim::Fixed(4)).unwrap();
        assert_eq!(rest.to_string(), "B - 4");
        assert_eq!(rest.bind(&[("B".into(), 6)]), Some(Dim::Fixed(2)));
        assert_eq!(rest.bind(&[("B".into(), 3)]), None);
        assert_eq!(rest.bind(&[("T".into(), 3)]), Some(rest.clone()));
        let product = named("B").times(&named("T")).unwrap();
        assert_eq!(product.bind(&[("B".into(), 2)]).unwrap().to_string(), "2 * T");
    }

    #[test]
    fn an_overflow_is_no_extent() {
        let large = Dim::Fixed(1 << 40);
        assert_eq!(large.times(&large), None);
        assert_eq!(named("B").times(&large).and_then(|dim| dim.times(&large)), None);
        assert_eq!(Dim::Fixed(1).minus(&Dim::Fixed(2)), None);
    }
}
