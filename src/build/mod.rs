//! Pipelines built by a program.
//!
//! A [`PipelineBuilder`] writes the text of a pipeline ([`PipelineBuilder::text`]), which [`Engine::read`] reads like a
//! file. So a built pipeline has all defaults and all diagnostics of files, and may be saved and run by `engine run`.
//!
//! ```
//! use engine::Engine;
//! use engine::build::{PipelineBuilder, adam, evaluate, kaiming, op, train};
//!
//! let mut p = PipelineBuilder::new("digits").seed(7);
//! p.data("digits", "synthetic-digits", &[("n_train", 512.into())]);
//! let image = p.input_from("image", "u8[B, 784]", "digits.images");
//! let label = p.input_from("label", "u8[B]", "digits.labels");
//! let w = p.param("w", "f32[784, 10]", kaiming());
//! let logits = op("cast").on(&image).with("dtype", "f32") / 255.0;
//! let logits = logits.dot(&w);
//! let target = op("cast").on(&label).with("dtype", "i32");
//! let loss = p.node("loss", op("cross_entropy").on(&logits).on(&target));
//! let hit = p.node("accuracy", op("mean").on(op("argmax").on(&logits).with("axis", 1).equals(&target)));
//! p.stage("train", train("digits.train", 64, &loss, adam(1e-2)).with("epochs", 2));
//! p.stage("test", evaluate("digits.test", 100).with("metrics", [&hit]));
//!
//! let engine = Engine::new();
//! let program = engine.read("digits.ron", &p.text())?;
//! assert_eq!(program.pipeline.stages.len(), 2);
//! # Ok::<(), engine::Faults>(())
//! ```
//!
//! [`Engine::read`]: crate::Engine::read

mod expr;
mod pipeline;
mod terms;
#[cfg(test)]
mod tests;
mod text;
mod words;

pub use expr::op;
pub use pipeline::PipelineBuilder;
pub use terms::{Expr, Value};
pub use words::{
    adam, adamw, constant, cosine, evaluate, generate, kaiming, normal, predict, run, save, sgd, train,
    uniform, word, xavier, zeros,
};
