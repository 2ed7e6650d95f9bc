#![allow(clippy::unwrap_used, missing_docs)]
//! ONNX models, imported and compared with onnxruntime.

#[path = "onnx/bad_input.rs"]
mod bad_input;
#[path = "onnx/common.rs"]
mod common;
#[path = "onnx/contrib.rs"]
mod contrib;
#[path = "onnx/damaged.rs"]
mod damaged;
#[path = "onnx/documents.rs"]
mod documents;
#[path = "onnx/draws.rs"]
mod draws;
#[path = "onnx/export.rs"]
mod export;
#[path = "onnx/known.rs"]
mod known;
#[path = "onnx/models.rs"]
mod models;
#[path = "onnx/node_tests.rs"]
mod node_tests;
#[path = "onnx/ops.rs"]
mod ops;
#[path = "common/present.rs"]
mod present;
