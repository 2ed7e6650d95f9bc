//! The builder.

use super::terms::{Expr, Value};

/// A pipeline that a program builds, in any order.
///
/// Names are those of files: a clash or a missing field is a diagnostic of [`Engine::read`](crate::Engine::read), not a
/// panic.
///
/// ```
/// use engine::Engine;
/// use engine::build::{PipelineBuilder, op};
///
/// let mut p = PipelineBuilder::new("logistic");
/// let x = p.input("x", "f32[B, 4]");
/// let w = p.param("w", "f32[4]", engine::build::normal(0.0, 0.1));
/// p.node("y", op("sigmoid").on(x.dot(&w)));
/// assert!(Engine::new().read("logistic.ron", &p.text()).is_ok());
/// ```
#[derive(Clone, Debug, Default)]
pub struct PipelineBuilder {
    pub(super) settings: Vec<(String, Value)>,
    pub(super) dims: Vec<(String, Value)>,
    pub(super) data: Vec<(String, Value)>,
    pub(super) inputs: Vec<(String, Value)>,
    pub(super) params: Vec<(String, Value)>,
    pub(super) layers: Vec<(String, Expr)>,
    pub(super) nodes: Vec<(String, Expr)>,
    pub(super) stages: Vec<(String, Value)>,
}

/// A group of fields without a word before it.
fn group(fields: Vec<(&str, Value)>) -> Value {
    Value::Word(String::new(), fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

impl PipelineBuilder {
    /// An empty pipeline with that name.
    ///
    /// ```
    /// use engine::build::PipelineBuilder;
    ///
    /// assert_eq!(PipelineBuilder::new("empty").text(), "(\n    name: \"empty\",\n)\n");
    /// ```
    pub fn new(name: &str) -> PipelineBuilder {
        PipelineBuilder::default().set("name", name)
    }

    /// The seed of initial values, shuffling and random nodes.
    ///
    /// ```
    /// use engine::Engine;
    /// use engine::build::PipelineBuilder;
    ///
    /// let p = PipelineBuilder::new("p").seed(7);
    /// assert_eq!(Engine::new().read("p.ron", &p.text())?.pipeline.seed, 7);
    /// # Ok::<(), engine::Faults>(())
    /// ```
    pub fn seed(self, seed: u32) -> PipelineBuilder {
        self.set("seed", seed)
    }

    /// A setting of the pipeline, such as `matmul`, `numerics` or `precision`.
    ///
    /// ```
    /// use engine::Engine;
    /// use engine::build::{PipelineBuilder, word};
    ///
    /// let p = PipelineBuilder::new("p").set("precision", word("Bf16"));
    /// assert!(Engine::new().read("p.ron", &p.text()).is_ok());
    /// ```
    pub fn set(mut self, name: &str, value: impl Into<Value>) -> PipelineBuilder {
        self.settings.push((name.to_owned(), value.into()));
        self
    }

    /// An extent with a name, which types and expressions may use.
    ///
    /// ```
    /// use engine::Engine;
    /// use engine::build::{PipelineBuilder, zeros};
    ///
    /// let mut p = PipelineBuilder::new("p");
    /// p.dim("H", 32);
    /// p.param("w", "f32[H, 4 * H]", zeros());
    /// assert!(Engine::new().read("p.ron", &p.text()).is_ok());
    /// ```
    pub fn dim(&mut self, name: &str, extent: usize) {
        self.dims.push((name.to_owned(), extent.into()));
    }

    /// A data source with its options.
    ///
    /// ```
    /// use engine::Engine;
    /// use engine::build::PipelineBuilder;
    ///
    /// let mut p = PipelineBuilder::new("p");
    /// p.data("digits", "synthetic-digits", &[("n_train", 512.into())]);
    /// p.input_from("image", "u8[B, 784]", "digits.images");
    /// assert!(Engine::new().read("p.ron", &p.text()).is_ok());
    /// ```
    pub fn data(&mut self, name: &str, source: &str, options: &[(&str, Value)]) {
        let mut fields = vec![("source", source.into())];
        fields.extend(options.iter().map(|(name, value)| (*name, value.clone())));
        self.data.push((name.to_owned(), group(fields)));
    }

    /// An input that the caller gives, with its type, such as `"f32[B, 4]"`.
    ///
    /// ```
    /// use engine::Engine;
    /// use engine::build::PipelineBuilder;
    ///
    /// let mut p = PipelineBuilder::new("p");
    /// let x = p.input("x", "f32[B, 4]");
    /// p.node("y", x * 2.0);
    /// assert!(Engine::new().read("p.ron", &p.text()).is_ok());
    /// ```
    pub fn input(&mut self, name: &str, ty: &str) -> Expr {
        self.inputs.push((name.to_owned(), ty.into()));
        Expr::named(name)
    }

    /// An input from a field of data, such as `"digits.images"`.
    ///
    /// ```
    /// use engine::Engine;
    /// use engine::build::PipelineBuilder;
    ///
    /// let mut p = PipelineBuilder::new("p");
    /// p.data("digits", "synthetic-digits", &[]);
    /// let image = p.input_from("image", "u8[B, 784]", "digits.images");
    /// assert!(Engine::new().read("p.ron", &p.text()).is_ok());
    /// ```
    pub fn input_from(&mut self, name: &str, ty: &str, field: &str) -> Expr {
        self.inputs.push((name.to_owned(), group(vec![("type", ty.into()), ("from", field.into())])));
        Expr::named(name)
    }

    /// A parameter that is trained, with its initial values.
    ///
    /// ```
    /// use engine::Engine;
    /// use engine::build::{PipelineBuilder, normal};
    ///
    /// let mut p = PipelineBuilder::new("p");
    /// let x = p.input("x", "f32[B, 4]");
    /// let w = p.param("w", "f32[4, 2]", normal(0.0, 0.02));
    /// p.node("y", x.dot(&w));
    /// assert!(Engine::new().read("p.ron", &p.text()).is_ok());
    /// ```
    pub fn param(&mut self, name: &str, ty: &str, init: Value) -> Expr {
        self.params.push((name.to_owned(), group(vec![("type", ty.into()), ("init", init)])));
        Expr::named(name)
    }

    /// A state that a step hands to the next, which is not trained.
    ///
    /// ```
    /// use engine::Engine;
    /// use engine::build::{PipelineBuilder, constant, run, Value};
    ///
    /// let mut p = PipelineBuilder::new("p");
    /// let n = p.state("n", "f32[]", constant(0.0));
    /// let next = p.node("next", &n + 1.0);
    /// p.stage("count", run(vec![next.clone()]).with("steps", 3).with("state", Value::map([("n", next)])));
    /// assert!(Engine::new().read("p.ron", &p.text()).is_ok());
    /// ```
    pub fn state(&mut self, name: &str, ty: &str, init: Value) -> Expr {
        let fields = vec![("type", ty.into()), ("init", init), ("state", true.into())];
        self.params.push((name.to_owned(), group(fields)));
        Expr::named(name)
    }

    /// A layer with a name of its own: `op("Embedding").with("rows", 256)`. Calls of that name share its parameters.
    ///
    /// ```
    /// use engine::Engine;
    /// use engine::build::{PipelineBuilder, op};
    ///
    /// let mut p = PipelineBuilder::new("p");
    /// let x = p.input("x", "f32[B, 4]");
    /// p.layer("same", op("Linear").with("width", 4));
    /// p.node("y", op("same").on(op("same").on(x)));
    /// assert_eq!(Engine::new().read("p.ron", &p.text())?.pipeline.params.len(), 2, "a weight and a bias");
    /// # Ok::<(), engine::Faults>(())
    /// ```
    pub fn layer(&mut self, name: &str, layer: Expr) {
        self.layers.push((name.to_owned(), layer));
    }

    /// A node with that name.
    ///
    /// ```
    /// use engine::Engine;
    /// use engine::build::PipelineBuilder;
    ///
    /// let mut p = PipelineBuilder::new("p");
    /// let x = p.input("x", "f32[B]");
    /// let y = p.node("y", x + 1.0);
    /// p.node("z", &y * &y);
    /// assert!(Engine::new().read("p.ron", &p.text()).is_ok());
    /// ```
    pub fn node(&mut self, name: &str, value: impl Into<Expr>) -> Expr {
        self.nodes.push((name.to_owned(), value.into()));
        Expr::named(name)
    }

    /// A stage. Stages run in the order in which they are added.
    ///
    /// ```
    /// use engine::Engine;
    /// use engine::build::{PipelineBuilder, run, save, zeros};
    ///
    /// let mut p = PipelineBuilder::new("p");
    /// let w = p.param("w", "f32[2]", zeros());
    /// p.stage("show", run(vec![w]));
    /// p.stage("keep", save("w.npz"));
    /// assert_eq!(Engine::new().read("p.ron", &p.text())?.pipeline.stages.len(), 2);
    /// # Ok::<(), engine::Faults>(())
    /// ```
    pub fn stage(&mut self, name: &str, stage: Value) {
        self.stages.push((name.to_owned(), stage));
    }
}
