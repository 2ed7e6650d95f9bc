//! Shape, indexing and linear-algebra ops
