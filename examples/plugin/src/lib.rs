//! Ops of all levels: a function in RON, a scalar body, a body with a foreign function, and a kernel. A stage kind, a
//! schedule, a loss and a metric of searches are registered beside them.

mod bessel;
mod inverse_sqrt;
mod log_cosh;
mod norms;
mod reciprocal_rank;
mod row_moments;
mod running_median;
mod softsign;

use engine::core::op::{OpForm, Registry};
use engine::runtime::session::stages;
use engine::{Engine, Faults};

/// The ops in Rust.
pub struct Ops;

impl engine::Plugin for Ops {
    fn name(&self) -> &str {
        "my_plugin"
    }

    fn ops(&self) -> Vec<OpForm> {
        vec![
            softsign::softsign(),
            bessel::bessel_j0(),
            running_median::running_median(),
            row_moments::row_moments(),
            log_cosh::log_cosh(),
        ]
    }

    fn register(&self, registry: &mut Registry) {
        stages::register::<norms::Norms>(registry, norms::NORMS);
        registry.register(inverse_sqrt::INVERSE_SQRT);
        registry.register(reciprocal_rank::RECIPROCAL_RANK);
    }
}

/// An engine with these ops and functions.
///
/// # Errors
/// If a name is taken.
pub fn with_ops(engine: Engine) -> Result<Engine, Faults> {
    engine.plugin(Ops)?.functions("functions.ron", include_str!("../functions.ron"))
}
