#![allow(clippy::unwrap_used, missing_docs)]
//! ONNX models, imported and compared with onnxruntime.

#[path = "onnx/common.rs"]
mod common;
#[path = "onnx/ops.rs"]
mod ops;
