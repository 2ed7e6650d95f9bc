//! The standard layers: RON texts that every pipeline can call.

/// Names and texts. A text comes after those that it uses, and a function of a text after those that it calls, since each is
/// read by itself when it is first called.
pub(crate) const ALL: [(&str, &str); 20] = [
    ("layers/linear.ron", include_str!("../layers/linear.ron")),
    ("layers/embedding.ron", include_str!("../layers/embedding.ron")),
    ("layers/norms.ron", include_str!("../layers/norms.ron")),
    ("layers/batch_norm.ron", include_str!("../layers/batch_norm.ron")),
    ("layers/vision.ron", include_str!("../layers/vision.ron")),
    ("layers/recurrent.ron", include_str!("../layers/recurrent.ron")),
    ("layers/dropout.ron", include_str!("../layers/dropout.ron")),
    ("layers/mlp.ron", include_str!("../layers/mlp.ron")),
    ("layers/attention.ron", include_str!("../layers/attention.ron")),
    ("layers/negatives.ron", include_str!("../layers/negatives.ron")),
    ("layers/linalg.ron", include_str!("../layers/linalg.ron")),
    ("layers/cluster.ron", include_str!("../layers/cluster.ron")),
    ("layers/tree.ron", include_str!("../layers/tree.ron")),
    ("layers/retrieved_attention.ron", include_str!("../layers/retrieved_attention.ron")),
    ("layers/complex.ron", include_str!("../layers/complex.ron")),
    ("layers/energy.ron", include_str!("../layers/energy.ron")),
    ("layers/training_state.ron", include_str!("../layers/training_state.ron")),
    ("layers/rssm.ron", include_str!("../layers/rssm.ron")),
    ("layers/residuals.ron", include_str!("../layers/residuals.ron")),
    ("layers/transformer.ron", include_str!("../layers/transformer.ron")),
];
