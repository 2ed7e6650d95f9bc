//! Measuring the steps of stages: how long they take, and every kernel of them.

use std::sync::Arc;
use std::time::Instant;

use engine_core::ir::Symbol;
use engine_core::pipeline::Stage;
use engine_core::plan::Plan;

use super::base::Session;
use super::error::SessionError;
use super::stages::{Steps, runnable};
use crate::device::RunError;

/// The times of one stage's steps.
#[derive(Clone, Debug)]
pub struct StageMeasure {
    /// The stage.
    pub name: Symbol,
    /// The plan of a whole step.
    pub plan: Arc<Plan>,
    /// From the pipeline to plans, and from those to executables with their memory.
    pub compile_seconds: f64,
    /// Each step after the warm-up, in order; the mean of those that were given at once.
    pub steps: Vec<f64>,
    /// The part of each in which the host submitted work to a GPU; empty where the host does the work itself.
    pub host: Vec<f64>,
    /// By launch of the plan: its time in each step that was profiled.
    pub launches: Vec<Vec<f64>>,
}

/// How much to measure.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Steps that are not counted.
    pub warmup: usize,
    /// Times that are taken, each of `at_once` steps.
    pub steps: usize,
    /// Steps that the device is given at once: with one, each pays for being waited for.
    pub at_once: usize,
    /// Steps of which every launch is timed.
    pub profiled: usize,
}

impl Session {
    /// Measures the stages that take steps (training, evaluation, search, `Run`, tokens of `Generate`), or the one of that name.
    /// Parameters and state change as in a run; nothing is saved. `Run` stages before that one which write state run first, so
    /// that it finds drawn rows and not zeros.
    ///
    /// ```
    #[doc = include_str!("examples/fit.md")]
    /// use engine::runtime::session::Effort;
    ///
    /// let effort = Effort { warmup: 2, steps: 5, at_once: 1, profiled: 1 };
    /// let measured = session.measure(Some("fit"), effort)?;
    /// assert_eq!(measured.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for running these stages.
    pub fn measure(&mut self, only: Option<&str>, effort: Effort) -> Result<Vec<StageMeasure>, SessionError> {
        let pipeline = Arc::clone(&self.pipeline);
        let planner = Arc::clone(&self.planner);
        let is_wanted = |stage: &Stage| only.is_none_or(|name| *stage.name == *name);
        let last = pipeline.stages.iter().rposition(is_wanted);
        let mut measured = vec![];
        for stage in &pipeline.stages[..last.map_or(0, |last| last + 1)] {
            if is_wanted(stage) {
                measured.extend(self.measure_stage(stage, effort)?);
            } else if runnable(stage, planner.registry())?.runs_before_measures() {
                self.run_stage(&stage.name, &mut |_| {})?;
            }
        }
        Ok(measured)
    }

    fn measure_stage(&mut self, stage: &Stage, effort: Effort) -> Result<Option<StageMeasure>, SessionError> {
        let start = Instant::now();
        let planner = Arc::clone(&self.planner);
        let runnable = runnable(stage, planner.registry())?;
        let Some(mut steps) = runnable.steps(self, &stage.name)? else { return Ok(None) };
        let compile_seconds = start.elapsed().as_secs_f64();
        measure(&mut *steps, effort)
            .map(|Times { steps: times, host, launches }| {
                let (name, plan) = (stage.name.clone(), Arc::clone(steps.plan()));
                Some(StageMeasure { name, plan, compile_seconds, steps: times, host, launches })
            })
            .map_err(|source| SessionError::Run { stage: stage.name.clone(), source })
    }
}

struct Times {
    steps: Vec<f64>,
    host: Vec<f64>,
    launches: Vec<Vec<f64>>,
}

fn measure(steps: &mut dyn Steps, effort: Effort) -> Result<Times, RunError> {
    let n_whole = steps.n_whole();
    let at_once = effort.at_once.clamp(1, n_whole as usize);
    let mut step = 0;
    // Steps that are given at once do not reach over the end.
    let mut next = |n: usize| {
        let first = if step + n as u64 > n_whole { 0 } else { step };
        step = first + n as u64;
        first
    };
    for _ in 0..effort.warmup {
        steps.run(next(1), 1)?;
    }
    // Work that a device prepares for calls of many steps happens before the clock starts.
    steps.run(next(at_once), at_once)?;
    let mut times = Vec::with_capacity(effort.steps);
    let mut host = Vec::with_capacity(effort.steps);
    for _ in 0..effort.steps {
        let start = Instant::now();
        steps.run(next(at_once), at_once)?;
        times.push(start.elapsed().as_secs_f64() / at_once as f64);
        host.extend(steps.host_seconds().map(|seconds| seconds / at_once as f64));
    }
    let mut launches: Vec<Vec<f64>> = vec![vec![]; steps.plan().launches.len()];
    for _ in 0..effort.profiled {
        for time in steps.profile(next(1))? {
            launches[time.launch].push(time.seconds);
        }
    }
    Ok(Times { steps: times, host, launches })
}
