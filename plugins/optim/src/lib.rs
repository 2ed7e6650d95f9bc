//! Random sampling, optimizers and schedules
