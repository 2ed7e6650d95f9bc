//! Measuring the steps of stages: how long they take, and every kernel of them.

use std::sync::Arc;
use std::time::Instant;

use engine_core::ir::Symbol;
use engine_core::pipeline::{Stage, StageKind};
use engine_core::plan::Plan;

use super::Session;
use super::batches::{Batches, Layout};
use super::error::SessionError;
use super::order::Order;

/// What the steps of one stage took.
#[derive(Clone, Debug)]
pub struct StageMeasure {
    /// The stage.
    pub name: Symbol,
    /// The plan of a whole step.
    pub plan: Arc<Plan>,
    /// From the pipeline to plans, and from those to executables with their memory.
    pub compile_seconds: f64,
    /// Each step after the warm-up, in order.
    pub steps: Vec<f64>,
    /// By launch of the plan: its time in each step that was profiled.
    pub launches: Vec<Vec<f64>>,
}

/// How much to measure.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Steps that are not counted.
    pub warmup: usize,
    /// Steps that are timed as a whole.
    pub steps: usize,
    /// Steps of which every launch is timed.
    pub profiled: usize,
}

impl Session {
    /// Measures the training and evaluation stages, or the one of that name. Parameters change as in training; nothing
    /// is saved.
    ///
    /// # Errors
    /// As for running these stages.
    pub fn measure(&mut self, only: Option<&str>, effort: Effort) -> Result<Vec<StageMeasure>, SessionError> {
        let pipeline = Arc::clone(&self.pipeline);
        let wanted = pipeline.stages.iter().filter(|stage| only.is_none_or(|name| *stage.name == *name));
        let mut measured = vec![];
        for stage in wanted {
            measured.extend(self.measure_stage(stage, effort)?);
        }
        Ok(measured)
    }

    fn measure_stage(&mut self, stage: &Stage, effort: Effort) -> Result<Option<StageMeasure>, SessionError> {
        let start = Instant::now();
        // The order must live as long as the executables that read it.
        let (mut batches, _order) = match &stage.kind {
            StageKind::Train(train) => {
                self.resident.prefetch(&train.data, &self.device, &self.background)?;
                let shape = self.resident.shape(&train.data)?;
                let batch = (train.batch, train.accumulate);
                let layout = Layout::new(&stage.name, shape.n_rows, batch, train.last_batch)?;
                let mut order = Order::new(Arc::clone(&self.device), self.pipeline.seed, shape.n_rows)?;
                order.begin(0, &self.background)?;
                self.resident.wait(&train.data)?;
                (self.prepare_training(&stage.name, train, &shape, layout, &order)?, Some(order))
            }
            StageKind::Evaluate(evaluation) => {
                (self.prepare_evaluation(&stage.name, &stage.name, evaluation)?, None)
            }
            _ => return Ok(None),
        };
        let compile_seconds = start.elapsed().as_secs_f64();
        measure(&mut batches, effort)
            .map(|(steps, launches)| {
                let plan = Arc::clone(&batches.plan);
                Some(StageMeasure { name: stage.name.clone(), plan, compile_seconds, steps, launches })
            })
            .map_err(|source| SessionError::Run { stage: stage.name.clone(), source })
    }
}

type Times = (Vec<f64>, Vec<Vec<f64>>);

fn measure(batches: &mut Batches, effort: Effort) -> Result<Times, crate::device::RunError> {
    let n_whole = batches.layout.n_full.max(1) as u64;
    let mut step = 0;
    let mut next = || {
        step += 1;
        (step - 1) % n_whole
    };
    for _ in 0..effort.warmup {
        batches.run(next(), 1)?;
    }
    let mut steps = Vec::with_capacity(effort.steps);
    for _ in 0..effort.steps {
        let start = Instant::now();
        batches.run(next(), 1)?;
        steps.push(start.elapsed().as_secs_f64());
    }
    let mut launches: Vec<Vec<f64>> = vec![vec![]; batches.plan.launches.len()];
    for _ in 0..effort.profiled {
        for time in batches.profile(next())? {
            launches[time.launch].push(time.seconds);
        }
    }
    Ok((steps, launches))
}
