//! Open sets: forms that plugins register beside ops, such as stage kinds and schedules.

use rpds::VectorSync;
use std::any::Any;
use std::sync::Arc;

/// One member of an open set. The set is the type: all stage kinds are values of one type, all schedules of another.
pub trait Form: Any + Send + Sync + Sized {
    /// A member of the set in messages: `stage kind`.
    const SET: &'static str;

    /// The name that pipelines use. It is unique in the set.
    fn name(&self) -> &str;

    /// The members that need no registration.
    fn builtin() -> &'static [Self] {
        &[]
    }
}

/// The registered members of all open sets, in order of registration.
#[derive(Clone, Default)]
pub(super) struct Forms(VectorSync<Arc<dyn Any + Send + Sync>>);

impl Forms {
    /// Adds a form.
    ///
    /// # Errors
    /// What it is, if the set has a form of that name.
    pub(super) fn add<F: Form>(&mut self, form: F) -> Result<(), String> {
        if self.of::<F>().any(|known| known.name() == form.name()) {
            return Err(format!("{} `{}`", F::SET, form.name()));
        }
        self.0.push_back_mut(Arc::new(form));
        Ok(())
    }

    /// Adds a form in the place of the registered one of that name, if there is one.
    pub(super) fn replace<F: Form>(&mut self, form: F) {
        let is_replaced = |known: &&F| known.name() == form.name();
        if self.of::<F>().any(|known| is_replaced(&known)) {
            let stays = |known: &&Arc<dyn Any + Send + Sync>| {
                !known.downcast_ref().is_some_and(|known| is_replaced(&known))
            };
            self.0 = self.0.iter().filter(stays).cloned().collect();
        }
        self.0.push_back_mut(Arc::new(form));
    }

    /// The built-in members of a set, then the registered ones.
    pub(super) fn of<F: Form>(&self) -> impl Iterator<Item = &F> {
        F::builtin().iter().chain(self.0.iter().filter_map(|form| form.downcast_ref::<F>()))
    }
}

#[cfg(test)]
mod tests {
    use crate::op::{Form, Registry};

    #[derive(Debug, PartialEq)]
    struct Colour(&'static str);

    impl Form for Colour {
        const SET: &'static str = "colour";

        fn name(&self) -> &str {
            self.0
        }

        fn builtin() -> &'static [Self] {
            &[Colour("red")]
        }
    }

    struct Shape(&'static str);

    impl Form for Shape {
        const SET: &'static str = "shape";

        fn name(&self) -> &str {
            self.0
        }
    }

    #[test]
    fn a_set_has_its_built_in_members_and_the_registered_ones() {
        let mut registry = Registry::new();
        registry.register(Colour("blue")).register(Shape("red"));
        assert_eq!(registry.forms::<Colour>().collect::<Vec<_>>(), [&Colour("red"), &Colour("blue")]);
        assert_eq!(registry.forms::<Shape>().count(), 1);
        assert_eq!(registry.form::<Colour>("blue"), Some(&Colour("blue")));
        assert_eq!(registry.form::<Colour>("green"), None);
        assert_eq!(registry.subset([]).forms::<Colour>().count(), 2);
    }

    #[test]
    fn of_two_members_of_one_name_the_first_one_stays() {
        let mut registry = Registry::new();
        registry.register(Colour("red")).register(Shape("red"));
        assert_eq!(registry.forms::<Colour>().count(), 1);
        let faults: Vec<String> = registry.taken().map(|fault| fault.message).collect();
        assert_eq!(faults, ["the colour `red` is registered twice"]);
    }
}
