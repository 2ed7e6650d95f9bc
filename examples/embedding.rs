//! The engine inside another program: data from memory, a graph as text, training with events, and a trained session
//! that several threads share.
//!
//!     cargo run --release --example embedding

use std::error::Error;
use std::path::Path;
use std::thread;

use engine::Engine;
use engine::core::compile::Options;
use engine::devices::{self, Choice};
use engine::runtime::data::source::{InMemory, LoadContext, Split};
use engine::runtime::session::Event;
use engine::runtime::tensor::HostTensor;
use indexmap::IndexMap;

/// Classifies points by the spiral, of two, on which they lie.
const GRAPH: &str = r#"(
  name: "spirals",
  seed: 1,
  data: {"points": (source: "spirals", validation: 0.2)},
  inputs: {
    "place": (type: "f32[B, 2]", from: "points.place"),
    "spiral": (type: "f32[B]", from: "points.spiral"),
  },
  params: {
    "w1": (type: "f32[2, 64]", init: Normal(0, 1.5)), "b1": (type: "f32[64]", init: Normal(0, 1)),
    "w2": (type: "f32[64, 64]", init: Kaiming), "b2": "f32[64]",
    "w3": (type: "f32[64, 1]", init: Xavier),
  },
  nodes: {
    "h": "relu(relu(place @ w1 + b1) @ w2 + b2)",
    "score": "sum(h @ w3, axis=1)",
    "sign": "2 * spiral - 1",
    "loss": "mean(softplus(-score * sign))",
    "accuracy": "mean(score * sign > 0.0)",
  },
  stages: {
    "train": Train(
      data: "points.train", batch: 64, epochs: 60, loss: "loss",
      optimizer: Adam(lr: Cosine(start: 1e-2, end: 1e-4)),
      evaluate: Evaluate(data: "points.validation", batch: 200, metrics: ["accuracy"]),
    ),
  },
)"#;

/// Point `i`, and the spiral on which it lies.
fn point(i: usize) -> ([f32; 2], f32) {
    let (spiral, t) = (i % 2, (i / 2) as f32 / 500.0);
    let angle = 9.0 * t + std::f32::consts::PI * spiral as f32;
    ([t * angle.cos(), t * angle.sin()], spiral as f32)
}

fn main() -> Result<(), Box<dyn Error>> {
    // Rows of any iterator become a data source that the graph names.
    let rows = (0..1000).map(|i| {
        let (place, spiral) = point(i);
        Ok([HostTensor::from_slice(&[2], &place)?, HostTensor::scalar(spiral)])
    });
    let rows = Split::from_rows(["place", "spiral"], rows.collect::<Result<Vec<_>, Box<dyn Error>>>()?)?;
    let engine = Engine::new().source(InMemory::new("spirals").split("train", rows))?;

    let pipeline = engine.read("spirals.ron", GRAPH)?;
    let device = devices::open(Choice::Auto, None)?.device;
    let nowhere = LoadContext::offline_in(Path::new("."));
    let mut session = engine.session(pipeline, device, &nowhere, Options::default(), &mut |_| {})?;

    let report = session.run_stages(None, &mut |event| {
        if let Event::EpochDone { report, .. } = event
            && report.epoch.is_multiple_of(20)
        {
            println!("epoch {}: loss {:.4}, {:?}", report.epoch, report.train_loss, report.metrics);
        }
    })?;
    let accuracy = report.stages[0].metrics["accuracy"];

    // Threads share a session by reference. Batches of any size are served, and each size is compiled once.
    let hits = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let session = &session;
                scope.spawn(move || {
                    let points: Vec<_> = (thread * 100..(thread + 1) * 100).map(point).collect();
                    let places: Vec<f32> = points.iter().flat_map(|(place, _)| *place).collect();
                    let place = HostTensor::from_slice(&[100, 2], &places).map_err(|e| e.to_string())?;
                    let inputs = IndexMap::from([("place".to_string(), place)]);
                    let outputs = session.run(&["score".into()], &inputs).map_err(|e| e.to_string())?;
                    let is_hit =
                        |(score, (_, spiral)): &(f64, ([f32; 2], f32))| (*score > 0.0) == (*spiral > 0.5);
                    Ok(outputs["score"].to_f64().into_iter().zip(points).filter(is_hit).count())
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err("a thread panicked".to_string())))
            .sum::<Result<usize, String>>()
    })?;
    println!("accuracy {accuracy:.3} on held-out rows, {hits} of 400 points by four threads");
    Ok(())
}
