//! The ways to run a pipeline that must agree.

use crate::present;
use engine::runtime::device::Device;
use std::sync::Arc;

/// The devices, and whether they fuse: the CPU with one and with two threads, unfused, and every GPU that is present.
pub fn devices() -> Vec<(Arc<dyn Device>, bool)> {
    let gpus = present::gpus().iter().map(|gpu| (Arc::clone(gpu), true));
    [(present::cpu(1), true), (present::cpu(2), true), (present::cpu(2), false)]
        .into_iter()
        .chain(gpus)
        .collect()
}
