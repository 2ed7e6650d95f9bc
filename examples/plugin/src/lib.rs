//! Ops of all levels: a function in RON, a scalar body, a body with a foreign function, and a kernel.

mod bessel;
mod running_median;
mod softsign;

use engine::Engine;
use engine::core::op::OpForm;

/// The ops in Rust.
pub struct Ops;

impl engine::Plugin for Ops {
    fn name(&self) -> &str {
        "my_plugin"
    }

    fn ops(&self) -> Vec<OpForm> {
        vec![softsign::softsign(), bessel::bessel_j0(), running_median::running_median()]
    }
}

/// An engine with these ops and functions.
pub fn with_ops(engine: Engine) -> Engine {
    engine.plugin(Ops).functions("functions.ron", include_str!("../functions.ron"))
}
