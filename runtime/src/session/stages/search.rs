//! Search stages: batches of queries against a base that is resident on the device.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use engine_core::compile::Compiled;
use engine_core::ir::{DType, Dim, InputKind, Symbol, Type};
use engine_core::pipeline::{Pipeline, RowIds, SearchMetric, SearchStage, SplitRef};
use engine_core::plan::Plan;
use engine_core::stage::{self, SplitShape, search_extents};
use indexmap::IndexMap;

use super::runnable::{Checking, Compiling, Runnable, Steps};
use super::stage_run::{StageRun, Stopped};
use crate::data::results;
use crate::device::{DeviceBuffer, Executable, KernelTime, RunError};
use crate::files::{Format, Overwrite};
use crate::session::Session;
use crate::session::error::SessionError;
use crate::session::event::Event;
use crate::session::plan::Request;
use crate::session::report::{LatencyReport, StageReport};
use crate::tensor::HostTensor;

impl Runnable for SearchStage {
    fn run(&self, run: StageRun<'_, '_>) -> Result<Option<StageReport>, Stopped> {
        let StageRun { session, name, tell, .. } = run;
        let start = Instant::now();
        let [base, queries] = self.splits();
        session.resident.prefetch(&base, &session.device, &session.background)?;
        session.resident.wait(&base)?;
        let n_queries = session.resident.shape(&queries)?.n_rows;
        let batch = self.batch.min(n_queries.max(1));
        let steps = n_queries.div_ceil(batch);
        tell(&Event::StageStarted { stage: name, kind: "search", n_steps: steps as u64 });
        let searcher = session.searcher(name, self, [&base, &queries], batch)?;
        let memory =
            session.check_memory(name, &[&base], (&searcher.plan, searcher.executable.arena_bytes()))?;
        let n_kernels = searcher.plan.launches.len();
        let steps_start = Instant::now();
        let (results, times) = session.search_all(name, self, searcher, [batch, n_queries])?;
        let seconds = steps_start.elapsed().as_secs_f64();
        let metrics = session.measure_search(self, &queries, &results)?;
        if let Some(set) = session.resident.set(&self.data) {
            tell(&Event::Evaluated { stage: name, metrics: &metrics, set });
        }
        for (node, path) in &self.write {
            if let Some(tensor) = results.get(node) {
                let path = Path::new(path);
                write(tensor, path, session.overwrite)?;
                tell(&Event::ResultsWritten { path });
            }
        }
        let report = StageReport {
            name: name.to_string(),
            kind: "search".to_string(),
            seconds: start.elapsed().as_secs_f64(),
            steps: steps as u64,
            step_us: seconds * 1e6 / steps.max(1) as f64,
            metrics,
            latency: LatencyReport::of(n_queries, &times),
            kernels_per_step: n_kernels,
            ..StageReport::default()
        };
        Ok(Some(report.with_memory(memory)))
    }

    fn check(&self, checking: &Checking<'_>) -> Result<Vec<SessionError>, SessionError> {
        let [base, queries] = self.splits();
        let (Some(base), Some(queries)) = (checking.shape(&base)?, checking.shape(&queries)?) else {
            return Ok(vec![]);
        };
        let pipeline = checking.pipeline;
        let batch = self.batch.min(queries.n_rows.max(1));
        let extents = search_extents(pipeline, &queries, base.n_rows, batch);
        let graph = checking.planned(stage::inference(
            pipeline,
            &named(self),
            &extents,
            (self.mode, self.precision),
        ))?;
        for (id, _) in graph.inputs().filter(|(_, kind)| *kind == InputKind::Data) {
            let output = &graph.nodes[id].outputs[0];
            let decl = pipeline.inputs.iter().find(|decl| decl.name == output.name);
            let field = decl.and_then(|decl| decl.from.as_ref()).map(|(_, field)| field);
            let fields = queries.fields.iter().chain(&base.fields);
            if let Some((_, row)) = fields.into_iter().find(|(name, _)| Some(name) == field) {
                expect_rows(&output.name, &output.ty, row)?;
            }
        }
        Ok(vec![])
    }

    fn compile(&self, compiling: &Compiling<'_>) -> Result<Option<Compiled>, SessionError> {
        let [base, queries] = self.splits();
        let (base, queries) = ((compiling.shape)(&base)?, (compiling.shape)(&queries)?);
        let n_rows = self.batch.min(queries.n_rows);
        let extents = search_extents(compiling.pipeline(), &queries, base.n_rows, n_rows);
        let (outputs, behaviour) = (&named(self)[..], (self.mode, self.precision).into());
        let fixed = &inputs_of_base(compiling.pipeline(), &self.data, [&base, &queries]);
        compiling.compile(&Request::Inference { outputs, extents: &extents, fixed, behaviour })
    }

    fn steps(&self, session: &mut Session, name: &Symbol) -> Result<Option<Box<dyn Steps>>, SessionError> {
        Ok(Some(Box::new(session.prepare_search(name, self)?)))
    }

    fn files(&self) -> Vec<(&Path, &'static Format)> {
        self.write.iter().map(|(_, path)| (Path::new(path), results::format_of(Path::new(path)))).collect()
    }
}

/// The nodes of a search as outputs of their own names.
fn named(search: &SearchStage) -> Vec<(Symbol, Symbol)> {
    search.outputs().map(|node| (node.clone(), node.clone())).collect()
}

/// The inputs that read fields of the base. These stay for all batches of queries.
fn inputs_of_base(pipeline: &Pipeline, data: &Symbol, [base, queries]: [&SplitShape; 2]) -> Vec<Symbol> {
    let has = |split: &SplitShape, field: &Symbol| split.fields.iter().any(|(known, _)| known == field);
    let of_base = pipeline.inputs.iter().filter(|input| {
        let of_data = input.from.as_ref().filter(|(set, _)| set == data);
        of_data.is_some_and(|(_, field)| has(base, field) && !has(queries, field))
    });
    of_base.map(|input| input.name.clone()).collect()
}

/// A plan for batches of one size.
struct Searcher {
    executable: Box<dyn Executable>,
    /// Inputs that every batch feeds: field, buffer, bytes of a row.
    fed: Vec<(Symbol, DeviceBuffer, usize)>,
    plan: Arc<Plan>,
}

/// The first batch of queries, again and again.
impl Steps for Searcher {
    fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Memory may run out here, for a device may allocate at the first steps.
    fn run(&mut self, step: u64, n_steps: usize) -> Result<(), RunError> {
        self.executable.run(step as u32, n_steps as u32).map_err(|error| error.of_plan(&self.plan))
    }

    fn host_seconds(&self) -> Option<f64> {
        self.executable.host_seconds()
    }

    fn profile(&mut self, step: u64) -> Result<Vec<KernelTime>, RunError> {
        self.executable.profile(step as u32)
    }
}

impl Session {
    /// The results of all queries, by node, and the seconds that each batch took.
    fn search_all(
        &mut self,
        stage: &Symbol,
        search: &SearchStage,
        mut searcher: Searcher,
        [batch, n_queries]: [usize; 2],
    ) -> Result<(IndexMap<Symbol, HostTensor>, Vec<f64>), SessionError> {
        let [base, queries] = search.splits();
        let (mut results, mut times) = (IndexMap::new(), vec![]);
        for (step, first) in (0..n_queries).step_by(batch).enumerate() {
            let n_rows = batch.min(n_queries - first);
            if n_rows < batch {
                searcher = self.searcher(stage, search, [&base, &queries], n_rows)?;
            }
            let start = Instant::now();
            self.feed_queries(&searcher, &queries, first, n_rows)?;
            let ran = searcher.run(step as u64, 1);
            ran.map_err(|source| SessionError::Run { stage: stage.clone(), source })?;
            self.collect(&searcher, search, &mut results, [first, n_rows, n_queries])?;
            times.push(start.elapsed().as_secs_f64());
            if self.is_cancelled() {
                return Err(SessionError::Interrupted { checkpoint: None });
            }
        }
        Ok((results, times))
    }

    /// A search of the first batch of queries.
    fn prepare_search(&mut self, stage: &Symbol, search: &SearchStage) -> Result<Searcher, SessionError> {
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
        let (base_shape, queries) = (self.resident.shape(base)?, self.resident.shape(queries)?);
        let is_query = |field: &Symbol| queries.fields.iter().any(|(known, _)| known == field);
        let extents = search_extents(&self.pipeline, &queries, base_shape.n_rows, n_rows);
        let (outputs, behaviour) = (&named(search)[..], (search.mode, search.precision).into());
        let fixed = &inputs_of_base(&self.pipeline, &search.data, [&base_shape, &queries]);
        let request = Request::Inference { outputs, extents: &extents, fixed, behaviour };
        let plan = self.planner.plan_for(stage, &request)?.plan;
        self.state.ensure_all(&plan).map_err(|error| error.of_plan(&plan))?;
        let executable = self.device.prepare(Arc::clone(&plan), self.pipeline.seed);
        let mut executable = executable.map_err(|error| error.of_plan(&plan))?;
        let mut fed = vec![];
        for (name, ty) in plan.inputs().map(|input| (&*input.name, &input.ty)) {
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
            let rows = split.tensor(field).map_err(data_error)?;
            let rows = rows.bytes().get(first * row_bytes..(first + n_rows) * row_bytes);
            let rows = rows.ok_or_else(|| SessionError::Input {
                input: field.to_string(),
                why: "its vectors have another length".into(),
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

    /// The share of queries that were certain after the first pass, the share of rows that were compared, and all registered
    /// metrics whose truth the data has.
    fn measure_search(
        &self,
        search: &SearchStage,
        queries: &SplitRef,
        results: &IndexMap<Symbol, HostTensor>,
    ) -> Result<IndexMap<String, f64>, SessionError> {
        let mut measured = IndexMap::new();
        if let Some(certified) = search.certified.as_ref().and_then(|node| results.get(node)) {
            let n_certain = certified.bytes().iter().filter(|&&byte| byte != 0).count();
            measured.insert("certified".to_owned(), n_certain as f64 / certified.bytes().len().max(1) as f64);
        }
        if let Some(scanned) = search.scanned.as_ref().and_then(|node| results.get(node)) {
            let n_rows = self.resident.shape(&search.splits()[0])?.n_rows;
            let n_pairs = (n_rows * scanned.bytes().len() / DType::I32.size()).max(1);
            measured.insert("scanned".to_owned(), scanned.to_f64().iter().sum::<f64>() / n_pairs as f64);
        }
        let set = self.resident.set(&queries.data).and_then(|set| set.split(&queries.split).ok());
        let (Some(split), Some(found)) = (set, results.get(&search.ids)) else { return Ok(measured) };
        for metric in self.planner.registry().forms::<SearchMetric>() {
            if let Ok(truth) = split.tensor(metric.truth) {
                measured.extend((metric.measure)(row_ids(found)?, row_ids(&truth)?));
            }
        }
        Ok(measured)
    }
}

fn row_ids(tensor: &HostTensor) -> Result<RowIds<'_>, SessionError> {
    Ok(RowIds { ids: tensor.as_slice()?, width: tensor.shape().get(1).copied().unwrap_or(0) })
}

/// Checks that the rows of a field fit the input that they feed.
fn expect_rows(input: &str, ty: &Type, row: &Type) -> Result<(), SessionError> {
    let wanted = Type { dtype: ty.dtype, shape: ty.shape.iter().skip(1).cloned().collect() };
    match row.dtype == wanted.dtype && row.numel() == wanted.numel() {
        true => Ok(()),
        false => Err(SessionError::Input {
            input: input.to_string(),
            why: format!("its rows are {wanted}, those of the data are {row}"),
        }),
    }
}

fn write(tensor: &HostTensor, path: &Path, overwrite: Overwrite) -> Result<(), SessionError> {
    let failed = |source| SessionError::Output { path: path.to_path_buf(), source };
    results::write_over(tensor, path, overwrite).map_err(failed)
}
