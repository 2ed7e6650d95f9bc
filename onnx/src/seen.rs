//! Inputs whose values are there when a model is imported.

use engine_core::ir::{Dim, Type};

use crate::known::Known;
use crate::names::valid;
use crate::tensor::Stored;

/// An input as far as its value shows it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its name in the model or in the pipeline. Without a name, it is the first input.
    pub input: Option<String>,
    /// Its extents; nothing in the place of one that stays open.
    pub extents: Vec<Option<usize>>,
    /// Its elements. Whole numbers are known while the model is imported.
    pub value: Option<Stored>,
}

impl Seen {
    /// Whether the model calls it by this name.
    pub(crate) fn is_of(&self, input: &str, is_first: bool) -> bool {
        self.input.as_ref().map_or(is_first, |name| name == input || *name == valid(input))
    }

    /// Its elements, if they are whole numbers or truth values that fit into the type of the input.
    pub(crate) fn known(&self, ty: &Type) -> Option<Known> {
        let Known { dims, elements, .. } = Known::of(self.value.as_ref()?)?;
        let has_shape = ty.shape.iter().map(Dim::fixed).eq(dims.iter().map(|&n| Some(n)));
        let known = Known::new(ty.dtype, dims, elements.clone())?;
        let mut pairs = known.elements.iter().zip(&elements);
        let is_same = pairs.all(|(own, given)| own.int().is_some() && own.int() == given.int());
        (has_shape && is_same).then_some(known)
    }
}
