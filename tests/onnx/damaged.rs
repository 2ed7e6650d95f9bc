//! Models with damaged bytes.

use super::common::bytes;
use engine::{Engine, Facts};
use serde_json::Value as Json;
use std::fs;
use std::path::Path;

/// Bits that differ from run to run, but not from time to time.
struct Bits(u64);

impl Bits {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n.max(1)
    }
}

/// A model with some bytes exchanged, left out, repeated, or taken from another model.
fn mutated(models: &[Vec<u8>], bits: &mut Bits) -> Vec<u8> {
    let mut bytes = models[bits.below(models.len())].clone();
    for _ in 0..=bits.below(2) {
        let at = bits.below(bytes.len());
        match bits.below(6) {
            0 => bytes.truncate(at),
            1 => bytes[at] ^= 1 << bits.below(8),
            2 => bytes[at] = [0, 1, 127, 128, 255][bits.below(5)],
            3 | 4 => {
                let other = &models[bits.below(models.len())];
                let from = bits.below(other.len());
                let part = &other[from..(from + bits.below(24)).min(other.len())];
                let end = (at + part.len()).min(bytes.len());
                bytes.splice(at..end, part.iter().copied());
            }
            _ => {
                let part = bytes[at..(at + bits.below(24)).min(bytes.len())].to_vec();
                bytes.splice(at..at, part);
            }
        }
        if bytes.is_empty() {
            break;
        }
    }
    bytes
}

/// `ENGINE_FUZZ_SECONDS` and `ENGINE_FUZZ_SEED` change the number of runs and the seed.
#[test]
fn damaged_models_are_refused_or_become_sound_pipelines() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let mut bits = Bits(0x2545_f491_4f6c_dd1d ^ number("ENGINE_FUZZ_SEED").unwrap_or(0));
    let cases: Vec<Json> = serde_json::from_str(include_str!("../examples/onnx_ops.json")).unwrap();
    let mut models: Vec<Vec<u8>> = cases.iter().map(|case| bytes(case["model"].as_str().unwrap())).collect();
    models.extend(
        ["mlp_torchscript", "both_torchscript", "block_dynamo"]
            .map(|name| fs::read(format!("tests/examples/onnx/{name}.onnx")).unwrap()),
    );
    let engine = Engine::new();
    let mut n_sound = 0;
    for _ in 0..10_000 * number("ENGINE_FUZZ_SECONDS").unwrap_or(1) {
        let damaged = mutated(&models, &mut bits);
        let Ok(model) = engine.import(Path::new("m.onnx"), damaged, &Facts::default()) else { continue };
        let text = model.text(None, &[]);
        match engine.read("m.ron", &text) {
            Ok(_) => n_sound += 1,
            // The value that an open extent has by default may not do.
            Err(_) if text.contains("dims:") => {}
            Err(faults) => panic!("{faults}\n{text}"),
        }
    }
    assert!(n_sound > 500, "{n_sound}");
}
