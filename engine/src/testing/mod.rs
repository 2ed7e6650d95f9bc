//! Tests of examples and gradients that follow from the forms, run by the oracle.
//!
//! A plugin's test is `testing::assert_families(&[&MyPlugin], include_str!("recorded.json"))`.

mod case;
mod checks;
mod failure;
mod gradients;
mod mutation;
mod recorded;

pub use case::{Case, case};
pub use checks::{
    check, conventions, difference, examples, gradients, op_conventions, op_examples, op_gradients, tolerance,
};
pub use failure::Failure;
pub use mutation::{Survivor, survivors};
pub use recorded::{recorded, recorded_examples};

use crate::op::{Plugin, Registry};

/// A registry of these families only.
pub fn registry(families: &[&dyn Plugin]) -> Registry {
    let mut registry = Registry::new();
    families.iter().for_each(|family| _ = registry.plugin(*family));
    registry
}

/// Runs all tests that follow from the forms of these families, and the cases of [`recorded`] as JSON.
///
/// # Panics
/// If a test fails. The message lists all failures.
pub fn assert_families(families: &[&dyn Plugin], cases: &str) {
    let registry = registry(families);
    let derived = [examples(&registry), gradients(&registry), conventions(&registry)].concat();
    let failures = [derived, recorded(&registry, cases)].concat();
    assert_eq!(failures, []);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{DType, E};
    use crate::op::{Grad, OpForm};
    use expect_test::expect;

    /// A form that squares, with an example.
    fn square(formula: fn(E) -> E, grad: Grad) -> Registry {
        let mut registry = Registry::new();
        let form = OpForm::unary("square", "Squares.", DType::is_float, formula).grad(grad).avoiding(&[0.0]);
        let (x, y): (&[f64], &[f64]) = (&[3.0, -1.5], &[9.0, 2.25]);
        registry.add(form.example("of two", "square(a)", &[("f32[2]", x)], &[("f32[2]", y)]));
        registry
    }

    #[test]
    fn a_sound_form_passes() {
        let registry = square(|x| x * x, Grad::Derive);
        assert_eq!((examples(&registry), gradients(&registry)), (vec![], vec![]));
    }

    #[test]
    fn a_wrong_formula_is_found() {
        let registry = square(|x| x * x.abs(), Grad::Derive);
        expect![[r#"[square, "of two": y0[1] is -2.25 instead of 2.25]"#]]
            .assert_eq(&format!("{:?}", examples(&registry)));
        assert_eq!(gradients(&registry), []);
    }

    #[test]
    fn no_number_is_near_an_infinite_one() {
        let mut registry = Registry::new();
        let form = OpForm::unary("large", "A large number.", DType::is_float, |x| x * 0.0 + 1e30);
        let (x, y): (&[f64], &[f64]) = (&[1.0], &[f64::INFINITY]);
        registry.add(form.example("of one", "large(a)", &[("f32[1]", x)], &[("f32[1]", y)]));
        assert_eq!(examples(&registry).len(), 1);
    }

    #[test]
    fn a_wrong_gradient_is_found() {
        let registry = square(|x| x * x, Grad::rule(|b, call| vec![call.grads[0].map(|g| b.scale(g, -1.0))]));
        assert_eq!(examples(&registry), []);
        assert_eq!(gradients(&registry).len(), 1);
    }
}
