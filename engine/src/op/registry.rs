//! The registry: the ops, and the members of all other open sets.

use super::forms::{Form, Forms};
use super::{OpForm, TypeIssue};
use crate::diag::{Code, Diagnostic};
use crate::ir::OpSet;
use rpds::{HashTrieMapSync, VectorSync};
use std::sync::{Arc, LazyLock};

/// A family of ops, and other forms that belong to it.
pub trait Plugin {
    /// Name of the family, shown by `engine ops`.
    fn name(&self) -> &str;
    /// All its ops, as an explicit list.
    fn ops(&self) -> Vec<OpForm>;
    /// Registers its members of other open sets: stage kinds, schedules, metrics.
    fn register(&self, _: &mut Registry) {}
}

/// An op, or what makes it when it is first asked for.
#[derive(Clone)]
enum Entry {
    Op(Arc<OpForm>),
    Later(Arc<Later>),
}

type Later = LazyLock<Option<Arc<OpForm>>, Box<dyn FnOnce() -> Option<Arc<OpForm>> + Send + Sync>>;

impl Entry {
    fn op(&self) -> Option<&Arc<OpForm>> {
        match self {
            Entry::Op(op) => Some(op),
            Entry::Later(op) => (**op).as_ref(),
        }
    }
}

/// All ops and other forms that a pipeline can name, in order of registration. Copies share their members, so a copy is
/// cheap: each function keeps one as its scope.
#[derive(Clone, Default)]
pub struct Registry {
    ops: VectorSync<Entry>,
    /// Places in `ops`, by name.
    places: HashTrieMapSync<String, usize>,
    forms: Forms,
    taken: Vec<String>,
}

impl Registry {
    /// An empty registry.
    pub fn new() -> Registry {
        Registry::default()
    }

    /// Adds a family. The family of an op is the plugin, unless its form names another.
    pub fn plugin(&mut self, plugin: &dyn Plugin) -> &mut Registry {
        for op in plugin.ops() {
            let family = if op.family.is_empty() { plugin.name().into() } else { op.family.clone() };
            self.add(OpForm { family, ..op });
        }
        plugin.register(self);
        self
    }

    /// Adds a member of an open set.
    pub fn register<F: Form>(&mut self, form: F) -> &mut Registry {
        self.taken.extend(self.forms.add(form).err());
        self
    }

    /// Adds a member of an open set in the place of the registered one of that name, if there is one.
    pub(crate) fn replace_form<F: Form>(&mut self, form: F) {
        self.forms.replace(form);
    }

    /// All members of an open set: the built-in ones, then the registered ones.
    pub fn forms<F: Form>(&self) -> impl Iterator<Item = &F> {
        self.forms.of()
    }

    /// The member of that name.
    pub fn form<F: Form>(&self, name: &str) -> Option<&F> {
        self.forms().find(|form: &&F| form.name() == name)
    }

    /// Adds one op.
    pub fn add(&mut self, op: OpForm) {
        match self.op(&op.name) {
            Some(op) => self.taken.push(format!("op `{}`", op.name)),
            None => self.put(op.name.clone(), Entry::Op(Arc::new(op))),
        }
    }

    /// Adds an op that is made when it is first asked for. It may turn out to be none.
    pub(crate) fn add_later(
        &mut self,
        name: &str,
        make: impl FnOnce() -> Option<Arc<OpForm>> + Send + Sync + 'static,
    ) {
        let later: Later = LazyLock::new(Box::new(make));
        self.put(name.to_owned(), Entry::Later(Arc::new(later)));
    }

    /// Adds an op, in the place of the one of its name.
    fn put(&mut self, name: String, entry: Entry) {
        match self.places.get(&name) {
            Some(&place) => _ = self.ops.set_mut(place, entry),
            None => {
                self.places.insert_mut(name, self.ops.len());
                self.ops.push_back_mut(entry);
            }
        }
    }

    /// Errors of names that were registered twice. The first form of such a name stays, and no pipeline is read.
    pub fn taken(&self) -> impl Iterator<Item = Diagnostic> {
        self.taken.iter().map(|what| {
            let mut error = Diagnostic::error(Code::E0302, format!("the {what} is registered twice"));
            error.help("rename one of them, or leave out a plugin");
            error
        })
    }

    /// The registry with one op replaced by a form of the same name.
    pub fn replaced(&self, op: OpForm) -> Registry {
        let mut registry = self.clone();
        registry.put(op.name.clone(), Entry::Op(Arc::new(op)));
        registry
    }

    /// The op with that name.
    pub fn op(&self, name: &str) -> Option<Arc<OpForm>> {
        self.places.get(name).and_then(|&place| self.ops.get(place)?.op()).cloned()
    }

    /// The op with that name.
    ///
    /// # Errors
    /// If it is unknown, with the name that was probably meant.
    pub fn expect_op(&self, name: &str) -> Result<Arc<OpForm>, TypeIssue> {
        self.op(name).ok_or_else(|| self.unknown(name))
    }

    /// All ops.
    pub fn ops(&self) -> impl Iterator<Item = &Arc<OpForm>> {
        self.ops.iter().filter_map(Entry::op)
    }

    /// A registry of those of the named ops that exist, with all other forms.
    pub fn subset<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Registry {
        let (forms, taken) = (self.forms.clone(), self.taken.clone());
        let mut subset = Registry { forms, taken, ..Registry::new() };
        let found = names.into_iter().filter_map(|name| self.op(name));
        found.for_each(|op| subset.put(op.name.clone(), Entry::Op(op)));
        subset
    }

    /// The known name closest to `name`, if one is close.
    pub fn nearest(&self, name: &str) -> Option<&str> {
        let near = |known: &&str| strsim::jaro_winkler(known, name) > 0.8;
        let score = |known: &&str| (strsim::jaro_winkler(known, name) * 1e6) as u64;
        self.ops().map(|op| &*op.name).filter(near).max_by_key(score)
    }
}
