//! `Repeat` stages: their parts in turn, trip by trip.

use std::path::{Path, PathBuf};
use std::time::Instant;

use engine_core::ir::Symbol;
use engine_core::pipeline::{Mode, PartDecl, RepeatStage};
use engine_core::stage;

use super::part::Part;
use super::runnable::{Checking, Runnable};
use super::stage_run::{StageRun, Stopped};
use crate::session::Session;
use crate::session::error::SessionError;
use crate::session::event::Event;
use crate::session::plan::Request;
use crate::session::prepared::Inference;
use crate::session::report::{MemoryReport, StageReport};
use crate::session::resume::{Progress, Resume};

impl Runnable for RepeatStage {
    fn run(&self, mut run: StageRun<'_, '_>) -> Result<Option<StageReport>, Stopped> {
        run.session.parts.begin(run.name);
        let ended = run_whole(self, &mut run);
        run.session.parts.end();
        ended
    }

    fn check(&self, checking: &Checking<'_>) -> Result<Vec<SessionError>, SessionError> {
        let conditions = self.parts.iter().filter_map(|part| part.when.as_ref()).chain(&self.until);
        for node in conditions {
            checking.planned(stage::condition(checking.pipeline, node))?;
        }
        Ok(vec![])
    }

    fn part(
        &self,
        run: &mut StageRun<'_, '_>,
        name: &Symbol,
        _: Option<u64>,
    ) -> Result<Box<dyn Part>, SessionError> {
        Ok(Box::new(Repeat::new(run, name, self)?))
    }

    fn is_resumable(&self) -> bool {
        true
    }
}

fn run_whole(stage: &RepeatStage, run: &mut StageRun<'_, '_>) -> Result<Option<StageReport>, Stopped> {
    let params = run.session.pipeline.params.iter().map(|param| param.name.clone());
    run.session.trained.names = params.collect();
    let mut repeat = Box::new(Repeat::new(run, run.name, stage)?);
    if let Some(resume) = run.resume.take() {
        repeat.restore(run, resume)?;
    }
    (run.tell)(&Event::StageStarted { stage: run.name, kind: "repeat", n_steps: stage.times as u64 });
    let mut ended = repeat.trip(run);
    if let Err(stopped) = &mut ended
        && let SessionError::Interrupted { checkpoint: checkpoint @ None } = &mut *stopped.error
    {
        *checkpoint = Some(repeat.interrupt(run)?);
    }
    let report = repeat.conclude(run, ended.is_ok());
    match ended {
        Ok(()) => report,
        Err(Stopped { error, .. }) => Err(Stopped { error, report: report.ok().flatten().map(Box::new) }),
    }
}

/// A `Repeat` on its way.
struct Repeat {
    name: Symbol,
    times: u64,
    turns: Vec<Turn>,
    until: Option<Condition>,
    /// Trips that are complete, of this run of the stage.
    trip: u64,
    /// The next part, and whether it has begun.
    place: usize,
    is_inside: bool,
    start: Instant,
    /// Trips of all runs.
    n_trips: u64,
}

/// A part, and when it runs.
struct Turn {
    name: Symbol,
    part: Box<dyn Part>,
    when: Option<Condition>,
}

/// A truth value that is computed from parameters and states.
struct Condition {
    stage: Symbol,
    inference: Inference,
}

impl Condition {
    fn new(session: &Session, stage: &Symbol, node: &Symbol) -> Result<Condition, SessionError> {
        let (outputs, behaviour) = ([(node.clone(), node.clone())], (Mode::Eval, session.pipeline.precision));
        let behaviour = behaviour.into();
        let request = Request::Inference { outputs: &outputs, extents: &[], fixed: &[], behaviour };
        let plan = session.planner.plan_for(stage, &request)?;
        Ok(Condition { stage: stage.clone(), inference: session.prepare_inference(stage, plan)? })
    }

    /// The value in a trip.
    fn holds(&mut self, trip: u64) -> Result<bool, SessionError> {
        let ran = self.inference.ready.run(trip as u32, 1);
        ran.map_err(|source| SessionError::Run { stage: self.stage.clone(), source })?;
        let outputs = self.inference.read_outputs()?;
        Ok(outputs.values().all(|value| value.bytes().iter().all(|&byte| byte != 0)))
    }
}

impl Turn {
    fn new(run: &mut StageRun<'_, '_>, repeat: &Symbol, decl: &PartDecl) -> Result<Turn, SessionError> {
        let (pipeline, planner) = (run.session.pipeline.clone(), run.session.planner.clone());
        let stage = pipeline
            .stage(&decl.stage)
            .ok_or_else(|| SessionError::NoStage { stage: decl.stage.clone(), kind: None })?;
        let kind = super::runnable(stage, planner.registry())?;
        let part = kind.part(run, &stage.name, decl.steps.map(|steps| steps as u64))?;
        let when = decl.when.as_ref().map(|node| Condition::new(run.session, repeat, node)).transpose()?;
        Ok(Turn { name: stage.name.clone(), part, when })
    }
}

impl Repeat {
    /// Prepares the parts. The state in checkpoints is that of all of them.
    fn new(run: &mut StageRun<'_, '_>, name: &Symbol, stage: &RepeatStage) -> Result<Repeat, SessionError> {
        let mut turns = vec![];
        let mut names = run.session.trained.names.clone();
        for decl in &stage.parts {
            turns.push(Turn::new(run, name, decl)?);
            let more = &run.session.trained.names;
            names.extend(more.iter().filter(|name| !names.contains(name)).cloned().collect::<Vec<_>>());
        }
        run.session.trained.names = names;
        let until = stage.until.as_ref().map(|node| Condition::new(run.session, name, node)).transpose()?;
        Ok(Repeat {
            name: name.clone(),
            times: stage.times as u64,
            turns,
            until,
            trip: 0,
            place: 0,
            is_inside: false,
            start: Instant::now(),
            n_trips: 0,
        })
    }

    /// Goes on from a checkpoint.
    fn restore(&mut self, run: &mut StageRun<'_, '_>, resume: Resume) -> Result<(), SessionError> {
        let Resume { path, checkpoint, .. } = &resume;
        run.session.expect_same_data(&resume)?;
        run.session.state.restore(path, &run.session.trained.names, &checkpoint.tensors, true)?;
        (run.tell)(&Event::CheckpointRead { path, step: checkpoint.step });
        let own = resume.of_part(&self.name);
        run.resume = Some(resume);
        let resumed = self.resume(run, &own);
        run.resume = None;
        resumed
    }

    /// Whether a trip has begun, which is completed even if all trainings have ended since.
    fn has_begun(&self) -> bool {
        self.place > 0 || self.is_inside
    }

    /// Runs the next part of the trip, or the rest of it, unless it is passed over.
    fn run_part(&mut self, run: &mut StageRun<'_, '_>) -> Result<(), Stopped> {
        let trip = self.trip;
        let turn = &mut self.turns[self.place];
        if !self.is_inside {
            let is_wanted = turn.when.as_mut().map_or(Ok(true), |when| when.holds(trip))?;
            self.is_inside = is_wanted && turn.part.has_ended() != Some(true);
        }
        if self.is_inside {
            self.note_progress(run.session);
            self.turns[self.place].part.trip(run)?;
        }
        (self.place, self.is_inside) = (self.place + 1, false);
        self.note_progress(run.session);
        match run.session.is_cancelled() {
            true => Err(SessionError::Interrupted { checkpoint: None }.into()),
            false => Ok(()),
        }
    }

    /// Records the progress that a checkpoint would contain now.
    fn note_progress(&self, session: &mut Session) {
        self.progress().into_iter().for_each(|(name, progress)| session.parts.note(&name, progress));
    }

    /// Saves the state of a run that is interrupted between steps of trainings, and says where.
    fn interrupt(&self, run: &mut StageRun<'_, '_>) -> Result<PathBuf, SessionError> {
        self.note_progress(run.session);
        let declared = self.checkpoint().map(Path::to_path_buf);
        let path = declared.unwrap_or_else(|| run.session.interrupted_path());
        run.session.write_checkpoint(&path, &run.session.checkpoint()?)?;
        (run.tell)(&Event::CheckpointWritten { path: &path });
        Ok(path)
    }
}

impl Part for Repeat {
    fn trip(&mut self, run: &mut StageRun<'_, '_>) -> Result<(), Stopped> {
        while self.trip < self.times && (self.has_begun() || self.has_ended() != Some(true)) {
            while self.place < self.turns.len() {
                self.run_part(run)?;
            }
            (self.trip, self.place, self.n_trips) = (self.trip + 1, 0, self.n_trips + 1);
            (run.tell)(&Event::Trip { stage: &self.name, trip: self.trip, times: self.times });
            if self.until.as_mut().map_or(Ok(false), |until| until.holds(self.trip))? {
                break;
            }
        }
        self.trip = 0;
        Ok(())
    }

    fn has_ended(&self) -> Option<bool> {
        self.turns.iter().filter_map(|turn| turn.part.has_ended()).reduce(|all, ended| all && ended)
    }

    fn checkpoint(&self) -> Option<&Path> {
        self.turns.iter().find_map(|turn| turn.part.checkpoint())
    }

    fn progress(&self) -> Vec<(Symbol, Progress)> {
        let counts = [("trip", self.trip), ("place", self.place as u64), ("inside", self.is_inside.into())];
        let counts = counts.into_iter().map(|(name, count)| (name.to_string(), count.to_string()));
        let own = [(self.name.clone(), counts.collect())];
        own.into_iter().chain(self.turns.iter().flat_map(|turn| turn.part.progress())).collect()
    }

    fn resume(&mut self, run: &mut StageRun<'_, '_>, progress: &Progress) -> Result<(), SessionError> {
        let Some(resume) = &run.resume else { return Ok(()) };
        let cannot = || resume.cannot(format!("the progress of stage `{}` is not understood", self.name));
        let count = |name: &str| progress.get(name).and_then(|text| text.parse::<u64>().ok());
        let counts = count("trip").zip(count("place")).zip(count("inside"));
        let ((trip, place), is_inside) = counts.ok_or_else(cannot)?;
        if place > self.turns.len() as u64 || (is_inside > 0 && place == self.turns.len() as u64) {
            return Err(cannot());
        }
        (self.trip, self.place, self.is_inside) = (trip, place as usize, is_inside > 0);
        let of_parts: Vec<Progress> = self.turns.iter().map(|turn| resume.of_part(&turn.name)).collect();
        self.turns.iter_mut().zip(&of_parts).try_for_each(|(turn, progress)| turn.part.resume(run, progress))
    }

    fn conclude(
        self: Box<Self>,
        run: &mut StageRun<'_, '_>,
        is_complete: bool,
    ) -> Result<Option<StageReport>, Stopped> {
        let mut parts = vec![];
        for turn in self.turns {
            parts.extend(turn.part.conclude(run, is_complete)?);
        }
        let all = |sum: MemoryReport, part: &StageReport| MemoryReport {
            parameters: sum.parameters.max(part.memory.parameters),
            state: sum.state.max(part.memory.state),
            data: sum.data.max(part.memory.data),
            steps: sum.steps + part.memory.steps,
        };
        let memory = parts.iter().fold(MemoryReport::default(), all);
        let report = StageReport {
            name: self.name.to_string(),
            kind: "repeat".to_string(),
            seconds: self.start.elapsed().as_secs_f64(),
            steps: self.n_trips,
            parts,
            ..StageReport::default()
        };
        Ok(Some(report.with_memory(memory)))
    }
}
