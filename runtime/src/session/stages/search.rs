//! Search stages: queries in batches against a base that lies on the device.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use engine_core::ir::{Dim, InputKind, Symbol, Type};
use engine_core::pipeline::{SearchStage, SplitRef};
use engine_core::plan::{Place, Plan};
use engine_core::stage::search_extents;
use indexmap::IndexMap;

use super::error::SessionError;
use super::event::Event;
use super::report::StageReport;
use super::{Session, Subscriber};
use crate::data::vectors;
use crate::device::{DeviceBuffer, Executable, RunError};
use crate::tensor::HostTensor;

/// The field of true neighbours, and the counts that recall is told for.
const NEIGHBOURS: &str = "neighbours";
const RECALL_AT: [usize; 3] = [1, 10, 100];

/// A plan for batches of one size.
pub(super) struct Searcher {
    pub(super) executable: Box<dyn Executable>,
    /// Inputs that are fed anew with every batch: field, buffer, bytes of a row.
    fed: Vec<(Symbol, DeviceBuffer, usize)>,
    pub(super) plan: Arc<Plan>,
}

impl Searcher {
    /// Takes steps. What a device sets up at the first ones may find no memory.
    pub(super) fn run(&mut self, first_step: u32, n_steps: u32) -> Result<(), RunError> {
        self.executable.run(first_step, n_steps).map_err(|error| error.of_plan(&self.plan))
    }
}

impl Session {
    pub(super) fn search_stage(
        &mut self,
        stage: &Symbol,
        search: &SearchStage,
        tell: &mut Subscriber<'_>,
    ) -> Result<StageReport, SessionError> {
        let start = Instant::now();
        let [base, queries] = search.splits();
        self.resident.prefetch(&base, &self.device, &self.background)?;
        self.resident.wait(&base)?;
        let n_queries = self.resident.shape(&queries)?.n_rows;
        let batch = search.batch.min(n_queries.max(1));
        tell(&Event::StageStarted { stage, kind: "search", n_steps: n_queries.div_ceil(batch) as u64 });
        let mut results: IndexMap<Symbol, HostTensor> = IndexMap::new();
        let mut searcher = self.searcher(stage, search, [&base, &queries], batch)?;
        let memory =
            self.check_memory(stage, &[&base], (&searcher.plan, searcher.executable.arena_bytes()))?;
        let n_kernels = searcher.plan.launches.len();
        let steps_start = Instant::now();
        for (step, first) in (0..n_queries).step_by(batch).enumerate() {
            let n_rows = batch.min(n_queries - first);
            if n_rows < batch {
                searcher = self.searcher(stage, search, [&base, &queries], n_rows)?;
            }
            self.feed_queries(&searcher, &queries, first, n_rows)?;
            let ran = searcher.run(step as u32, 1);
            ran.map_err(|source| SessionError::Run { stage: stage.clone(), source })?;
            self.collect(&searcher, search, &mut results, [first, n_rows, n_queries])?;
            if self.is_cancelled() {
                return Err(SessionError::Interrupted { checkpoint: None });
            }
        }
        let seconds = steps_start.elapsed().as_secs_f64();
        let metrics = self.recalls(search, &queries, &results)?;
        if let Some(set) = self.resident.set(&search.data) {
            tell(&Event::Evaluated { stage, metrics: &metrics, set });
        }
        for (node, path) in &search.write {
            if let Some(tensor) = results.get(node) {
                let path = Path::new(path);
                write(tensor, path)?;
                tell(&Event::ResultsWritten { path });
            }
        }
        let steps = n_queries.div_ceil(batch);
        Ok(StageReport {
            name: stage.to_string(),
            kind: "search".to_string(),
            seconds: start.elapsed().as_secs_f64(),
            steps: steps as u64,
            step_us: seconds * 1e6 / steps.max(1) as f64,
            epochs: vec![],
            end: None,
            metrics,
            kernels_per_step: n_kernels,
            ..StageReport::default()
        }
        .with_memory(memory))
    }

    /// A search of the first batch of queries.
    pub(super) fn prepare_search(
        &mut self,
        stage: &Symbol,
        search: &SearchStage,
    ) -> Result<Searcher, SessionError> {
        let [base, queries] = search.splits();
        self.resident.prefetch(&base, &self.device, &self.background)?;
        self.resident.wait(&base)?;
        let batch = search.batch.min(self.resident.shape(&queries)?.n_rows.max(1));
        let searcher = self.searcher(stage, search, [&base, &queries], batch)?;
        self.feed_queries(&searcher, &queries, 0, batch)?;
        Ok(searcher)
    }

    /// Plans for so many queries at a time, and binds the base.
    fn searcher(
        &mut self,
        stage: &Symbol,
        search: &SearchStage,
        [base, queries]: [&SplitRef; 2],
        n_rows: usize,
    ) -> Result<Searcher, SessionError> {
        let outputs: Vec<(Symbol, Symbol)> =
            search.outputs().map(|node| (node.clone(), node.clone())).collect();
        let (base_shape, queries) = (self.resident.shape(base)?, self.resident.shape(queries)?);
        let is_query = |field: &Symbol| queries.fields.iter().any(|(known, _)| known == field);
        let extents = search_extents(&self.pipeline, &queries, base_shape.n_rows, n_rows);
        let plan = self.planner.inference(&outputs, &extents, search.mode);
        let plan = plan.map_err(|source| SessionError::Plan { stage: stage.clone(), source })?;
        self.state.ensure_all(&plan).map_err(|error| error.of_plan(&plan))?;
        let executable = self.device.prepare(Arc::clone(&plan), self.pipeline.seed);
        let mut executable = executable.map_err(|error| error.of_plan(&plan))?;
        let mut fed = vec![];
        for (name, ty) in search_inputs(&plan) {
            let field = self.field_of(name, &search.data);
            let mut fields = queries.fields.iter().chain(&base_shape.fields);
            if let Some((_, row)) = fields.find(|(known, _)| Some(known) == field.as_ref()) {
                expect_rows(name, ty, row)?;
            }
            if let Some(state) = self.state.buffer(name) {
                executable.bind(name, state)?;
            } else if let Some(field) = field.filter(|field| is_query(field)) {
                let memory = self.device.allocate(ty.bytes());
                let memory = memory.map_err(|error| error.of_buffer(name).of_plan(&plan))?;
                executable.bind(name, &memory)?;
                fed.push((field, memory, ty.bytes() / n_rows.max(1)));
            } else if let Some(memory) = self.base_buffer(base, name) {
                executable.bind(name, &memory)?;
            } else {
                let why = format!("`{}` has nothing for it", search.data);
                return Err(SessionError::Input { input: name.to_string(), why });
            }
        }
        Ok(Searcher { executable, fed, plan })
    }

    fn field_of(&self, input: &str, data: &Symbol) -> Option<Symbol> {
        let decl = self.pipeline.inputs.iter().find(|decl| *decl.name == *input)?;
        decl.from.as_ref().filter(|(set, _)| set == data).map(|(_, field)| field.clone())
    }

    fn base_buffer(&self, base: &SplitRef, input: &str) -> Option<DeviceBuffer> {
        let field = self.field_of(input, &base.data)?;
        self.resident.buffer(base, &format!("{}.{field}", base.data)).cloned()
    }

    fn feed_queries(
        &self,
        searcher: &Searcher,
        queries: &SplitRef,
        first: usize,
        n_rows: usize,
    ) -> Result<(), SessionError> {
        let data_error = |source| SessionError::Data { data: queries.data.clone(), source: Box::new(source) };
        let split = self.resident.split(queries)?;
        for (field, memory, row_bytes) in &searcher.fed {
            let bytes = split.field(field).map_err(data_error)?.bytes();
            let rows = bytes.get(first * row_bytes..(first + n_rows) * row_bytes).ok_or_else(|| {
                SessionError::Input {
                    input: field.to_string(),
                    why: "its vectors have another length".into(),
                }
            })?;
            self.device.write(memory, 0, rows)?;
        }
        Ok(())
    }

    /// Puts the results of a batch where they belong among all.
    fn collect(
        &self,
        searcher: &Searcher,
        search: &SearchStage,
        results: &mut IndexMap<Symbol, HostTensor>,
        [first, n_rows, n_queries]: [usize; 3],
    ) -> Result<(), SessionError> {
        for node in search.outputs() {
            let Some(value) = self.pipeline.graph.find(node) else { engine_core::bug!("no node `{node}`") };
            let ty = self.pipeline.graph.ty(value);
            let rest: Vec<usize> = ty.shape[1..].iter().filter_map(Dim::fixed).collect();
            if !results.contains_key(node) {
                let shape: Vec<usize> = [n_queries].into_iter().chain(rest.iter().copied()).collect();
                results.insert(node.clone(), HostTensor::zeros(ty.dtype, &shape)?);
            }
            let row_bytes = rest.iter().product::<usize>() * ty.dtype.size();
            if let Some(all) = results.get_mut(node) {
                let rows = &mut all.bytes_mut()[first * row_bytes..(first + n_rows) * row_bytes];
                searcher.executable.read_output(node, rows)?;
            }
        }
        Ok(())
    }

    fn recalls(
        &self,
        search: &SearchStage,
        queries: &SplitRef,
        results: &IndexMap<Symbol, HostTensor>,
    ) -> Result<IndexMap<String, f64>, SessionError> {
        let set = self.resident.set(&queries.data).and_then(|set| set.split(&queries.split).ok());
        let truth = set.and_then(|split| split.field(NEIGHBOURS).ok());
        let (Some(truth), Some(found)) = (truth, results.get(&search.ids)) else {
            return Ok(IndexMap::new());
        };
        let width = |tensor: &HostTensor| tensor.shape().get(1).copied().unwrap_or(0);
        let most = width(found).min(width(truth));
        let told = RECALL_AT.into_iter().filter(|k| *k <= most);
        told.map(|k| Ok((format!("recall@{k}"), vectors::recall(found, truth, k)?))).collect()
    }
}

/// All inputs but the step.
fn search_inputs(plan: &Plan) -> Vec<(&str, &Type)> {
    let is_fed = |place: &Place| matches!(place, Place::Input(kind) if *kind != InputKind::Step);
    let fed = plan.buffers.iter().filter(|buffer| is_fed(&buffer.place));
    fed.map(|buffer| (&*buffer.name, &buffer.ty)).collect()
}

/// Nothing if the rows of a field are those of the input that it goes to.
pub(super) fn expect_rows(input: &str, ty: &Type, row: &Type) -> Result<(), SessionError> {
    let wanted = Type { dtype: ty.dtype, shape: ty.shape.iter().skip(1).cloned().collect() };
    match row.dtype == wanted.dtype && row.numel() == wanted.numel() {
        true => Ok(()),
        false => Err(SessionError::Input {
            input: input.to_string(),
            why: format!("its rows are {wanted}, those of the data are {row}"),
        }),
    }
}

fn write(tensor: &HostTensor, path: &Path) -> Result<(), SessionError> {
    let failed = |source| SessionError::Output { path: path.to_path_buf(), source };
    vectors::write(tensor, path).map_err(failed)
}
