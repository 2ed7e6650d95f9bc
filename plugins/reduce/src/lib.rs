//! Reductions, softmax, norms and losses
