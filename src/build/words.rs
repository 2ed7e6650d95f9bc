//! Words of the format: initial values, optimizers, schedules and stages.

use super::terms::{Expr, Value};

/// A word such as `Cosine`, whose fields follow by [`Value::with`].
pub fn word(name: &str) -> Value {
    Value::Word(name.to_owned(), vec![])
}

/// Initial values that are all 0.
pub fn zeros() -> Value {
    word("Zeros")
}

/// Initial values that are all `value`.
pub fn constant(value: f64) -> Value {
    word("Constant").with("value", value)
}

/// Initial values that are normal, with this mean and standard deviation.
pub fn normal(mean: f64, std: f64) -> Value {
    word("Normal").with("mean", mean).with("std", std)
}

/// Initial values that are uniform in `low..high`.
pub fn uniform(low: f64, high: f64) -> Value {
    word("Uniform").with("low", low).with("high", high)
}

/// Initial values that are uniform within ±√(6 / (fan_in + fan_out)).
pub fn xavier() -> Value {
    word("Xavier")
}

/// Initial values that are uniform within ±√(6 / fan_in).
pub fn kaiming() -> Value {
    word("Kaiming")
}

/// The optimizer `Sgd`, with a learning rate: a number or a schedule.
pub fn sgd(lr: impl Into<Value>) -> Value {
    word("Sgd").with("lr", lr)
}

/// The optimizer `Adam`, with a learning rate: a number or a schedule.
pub fn adam(lr: impl Into<Value>) -> Value {
    word("Adam").with("lr", lr)
}

/// The optimizer `AdamW`, with a learning rate: a number or a schedule.
pub fn adamw(lr: impl Into<Value>) -> Value {
    word("AdamW").with("lr", lr)
}

/// The schedule `Cosine` from one rate to another.
pub fn cosine(start: f64, end: f64) -> Value {
    word("Cosine").with("start", start).with("end", end)
}

/// A `Train` stage on a split, such as `"digits.train"`. It needs `epochs` or `max_steps`, too.
pub fn train(data: &str, batch: usize, loss: impl Into<Expr>, optimizer: Value) -> Value {
    let stage = word("Train").with("data", data).with("batch", batch);
    stage.with("loss", loss.into()).with("optimizer", optimizer)
}

/// An `Evaluate` stage, or the evaluation of a `Train` stage. It needs `metrics`, too.
pub fn evaluate(data: &str, batch: usize) -> Value {
    word("Evaluate").with("data", data).with("batch", batch)
}

/// A `Predict` stage of these tensors.
pub fn predict(outputs: Vec<Expr>) -> Value {
    word("Predict").with("outputs", outputs)
}

/// A `Run` stage of these tensors.
pub fn run(outputs: Vec<Expr>) -> Value {
    word("Run").with("outputs", outputs)
}

/// A `Generate` stage of a language model.
pub fn generate(tokens: impl Into<Expr>, logits: impl Into<Expr>, prompt: &str) -> Value {
    let stage = word("Generate").with("tokens", tokens.into()).with("logits", logits.into());
    stage.with("prompt", prompt)
}

/// A `Save` stage.
pub fn save(path: &str) -> Value {
    word("Save").with("path", path)
}
