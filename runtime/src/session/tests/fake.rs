//! A make-believe device, whose plans are Rust functions.

use super::*;
use engine_core::program::TuneKey;

/// Plans `w += 0.5·(mean of the batch − w)`, with a slot that counts rows; measures the loss `(mean − w)²`.
/// Evaluates `|x − w|`. Infers `y = x·w`.
#[derive(Default)]
pub(super) struct Fake {
    pub(super) memory_bytes: u64,
    /// From this step on, the loss is NaN.
    pub(super) nan_from: Option<u32>,
    /// Cancels after this step.
    pub(super) cancel_at: Mutex<Option<(u32, Arc<AtomicBool>)>>,
    /// Which rows the plan of a name takes.
    pub(super) rows: Mutex<IndexMap<String, Rows>>,
    /// First values of the batches in the order of training, to compare with what should have been visited.
    pub(super) visited: Mutex<Vec<f32>>,
    /// How many plans were made ready.
    pub(super) n_prepared: AtomicUsize,
    /// Chooses something for each plan.
    pub(super) tuner: Option<Tuner>,
    /// The choice that it finds.
    pub(super) found: String,
}

impl Choice for String {
    fn to_text(&self) -> String {
        self.clone()
    }
    fn from_text(text: &str) -> Option<String> {
        Some(text.to_string())
    }
}

pub(super) struct FakeDevice(pub(super) Arc<Fake>);

pub(super) struct FakePlanner(pub(super) Arc<Fake>, pub(super) Registry);

pub(super) type Memory = Mutex<Vec<u8>>;

pub(super) fn buffer(name: &str, kind: InputKind, dtype: DType, extents: &[usize]) -> Buffer {
    let (ty, place) = (Type::new(dtype, extents), Place::Input(kind));
    Buffer { name: name.into(), ty, place, life: (0, 0) }
}

pub(super) fn plan(name: String, buffers: Vec<Buffer>, outputs: &[(&str, usize)]) -> Arc<Plan> {
    Arc::new(Plan {
        loops: vec![],
        name,
        kernels: vec![],
        launches: vec![],
        buffers,
        outputs: outputs.iter().map(|(name, buffer)| ((*name).into(), *buffer)).collect(),
        arena_bytes: 4,
        n_streams: 1,
        matmul: Precision::default(),
        numerics: Default::default(),
        assertions: vec![],
        places: vec![],
        values: vec![],
        once: None,
    })
}

pub(super) fn sum(metric: &str, state: &str) -> Sum {
    Sum { metric: metric.into(), state: state.into() }
}

pub(super) fn no_graph() -> Arc<Graph> {
    Arc::new(Graph::new("fake"))
}

impl FakePlanner {
    fn named(&self, scope: &str, rows: Rows) -> String {
        let name = format!("{scope} {rows:?}");
        self.0.rows.lock().unwrap().insert(name.clone(), rows);
        name
    }
}

impl Planner for FakePlanner {
    fn registry(&self) -> &Registry {
        &self.1
    }

    fn plan(&self, request: &Request) -> Result<StagePlan, PlanError> {
        match *request {
            Request::Training { data, rows, .. } => Ok(self.training(data, rows)),
            Request::Applying { .. } => Err("no step of several batches is taken here".into()),
            Request::Evaluation { scope, data, rows, .. } => Ok(self.evaluation(scope, data, rows)),
            Request::Inference { outputs, extents, behaviour, .. } => {
                inference(outputs, extents, behaviour.mode)
            }
            Request::Decoding { .. } => Err("no text is written here".into()),
            Request::Running(stage) => inference(&stage.outputs, &stage.dims, stage.mode),
        }
    }
}

impl FakePlanner {
    fn training(&self, data: &SplitShape, rows: Rows) -> StagePlan {
        assert_eq!(data.fields, [("x".into(), Type::scalar(DType::F32))]);
        let buffers = vec![
            buffer("data.x", InputKind::Data, DType::F32, &[data.n_held]),
            buffer("order", InputKind::Data, DType::I32, &[data.n_held]),
            buffer("w", InputKind::Param, DType::F32, &[]),
            buffer("w.n", InputKind::State, DType::F32, &[]),
            buffer("sum.loss", InputKind::State, DType::F32, &[]),
            buffer("nan", InputKind::State, DType::I32, &[]),
            buffer("step", InputKind::Step, DType::I32, &[]),
        ];
        let plan = plan(self.named("train", rows), buffers, &[("loss", 4)]);
        let sums = vec![sum("loss", "sum.loss")];
        StagePlan { plan, graph: no_graph(), sums, nan_step: Some("nan".into()), loss_scale: None }
    }

    fn evaluation(&self, scope: &str, data: &SplitShape, rows: Rows) -> StagePlan {
        let total = format!("{scope}.sum.error");
        let buffers = vec![
            buffer("data.x", InputKind::Data, DType::F32, &[data.n_held]),
            buffer("w", InputKind::Param, DType::F32, &[]),
            buffer(&total, InputKind::State, DType::F32, &[]),
        ];
        let plan = plan(self.named(scope, rows), buffers, &[]);
        StagePlan {
            plan,
            graph: no_graph(),
            sums: vec![sum("error", &total)],
            nan_step: None,
            loss_scale: None,
        }
    }
}

fn inference(
    outputs: &[(Symbol, Symbol)],
    extents: &[(Symbol, usize)],
    mode: Mode,
) -> Result<StagePlan, PlanError> {
    assert_eq!(mode, Mode::Eval);
    if &*outputs[0].1 != "y" {
        return Err(format!("there is no node `{}`", outputs[0].1).into());
    }
    let n = extents[0].1;
    let y =
        Buffer { name: "y".into(), ty: Type::new(DType::F32, &[n]), place: Place::Arena(0), life: (0, 0) };
    let buffers = vec![
        buffer("x", InputKind::Data, DType::F32, &[n]),
        buffer("w", InputKind::Param, DType::F32, &[]),
        y,
    ];
    let plan = plan("infer".to_string(), buffers, &[("y", 2)]);
    Ok(StagePlan { plan, graph: no_graph(), sums: vec![], nan_step: None, loss_scale: None })
}

impl Device for FakeDevice {
    fn info(&self) -> DeviceInfo {
        let memory_bytes = self.0.memory_bytes;
        DeviceInfo { name: "fake".to_string(), kind: DeviceKind::Cpu, memory_bytes, details: vec![] }
    }
    fn allocate(&self, bytes: usize) -> Result<DeviceBuffer, DeviceError> {
        Ok(DeviceBuffer::new(bytes, Arc::new(Memory::new(vec![0; bytes]))))
    }
    fn write(&self, buffer: &DeviceBuffer, offset: usize, bytes: &[u8]) -> Result<(), DeviceError> {
        buffer.memory::<Memory>()?.lock().unwrap()[offset..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
    fn read(&self, buffer: &DeviceBuffer, offset: usize, bytes: &mut [u8]) -> Result<(), DeviceError> {
        bytes.copy_from_slice(&buffer.memory::<Memory>()?.lock().unwrap()[offset..][..bytes.len()]);
        Ok(())
    }
    fn tuning(&self) -> Option<Tuning> {
        self.0.tuner.as_ref().and_then(Tuner::tuning)
    }
    fn adopt(&self, tuning: &Tuning) -> bool {
        self.0.tuner.as_ref().is_some_and(|tuner| tuner.adopt(tuning))
    }
    fn prepare(&self, plan: Arc<Plan>, _: u64) -> Result<Box<dyn Executable>, DeviceError> {
        self.0.n_prepared.fetch_add(1, Ordering::Relaxed);
        if let Some(tuner) = &self.0.tuner {
            let found = || Ok(self.0.found.clone());
            let key = TuneKey { subject: plan.name.clone(), details: String::new() };
            tuner.choose(&key, |_: &String| true, found)?;
        }
        let rows = self.0.rows.lock().unwrap().get(&plan.name).copied();
        let fake = Arc::clone(&self.0);
        Ok(Box::new(FakeExecutable { fake, plan, rows, bound: IndexMap::new(), loss: 0.0, y: vec![] }))
    }
}

pub(super) struct FakeExecutable {
    pub(super) fake: Arc<Fake>,
    pub(super) plan: Arc<Plan>,
    pub(super) rows: Option<Rows>,
    pub(super) bound: IndexMap<String, DeviceBuffer>,
    pub(super) loss: f32,
    pub(super) y: Vec<u8>,
}

impl FakeExecutable {
    fn bytes(&self, name: &str) -> Vec<u8> {
        self.bound[name].memory::<Memory>().unwrap().lock().unwrap().clone()
    }
    fn floats(&self, name: &str) -> Vec<f32> {
        self.bytes(name).chunks_exact(4).map(|word| f32::from_le_bytes(word.try_into().unwrap())).collect()
    }
    fn add(&self, name: &str, what: f32) {
        let sum = self.floats(name)[0] + what;
        *self.bound[name].memory::<Memory>().unwrap().lock().unwrap() = sum.to_le_bytes().to_vec();
    }
    /// The rows of a step, in the order that is bound, if one is.
    fn batch(&self, step: u32) -> Vec<f32> {
        let range = match self.rows.unwrap() {
            Rows::Batches { batch, per_epoch } => {
                let first = step as usize % per_epoch * batch;
                first..first + batch
            }
            Rows::Last { first, rows } => first..first + rows,
        };
        let x = self.floats("data.x");
        match self.bound.contains_key("order") {
            false => x[range].to_vec(),
            true => {
                let order = self.bytes("order");
                let order: Vec<i32> =
                    order.chunks_exact(4).map(|word| i32::from_le_bytes(word.try_into().unwrap())).collect();
                order[range].iter().map(|&row| x[row as usize]).collect()
            }
        }
    }

    fn train(&mut self, step: u32) {
        let batch = self.batch(step);
        self.fake.visited.lock().unwrap().extend(&batch);
        let mean = batch.iter().sum::<f32>() / batch.len() as f32;
        let w = self.floats("w")[0];
        self.loss = (mean - w).powi(2);
        if self.fake.nan_from.is_some_and(|from| step >= from) {
            self.loss = f32::NAN;
            let nan = &self.bound["nan"].memory::<Memory>().unwrap();
            let mut nan = nan.lock().unwrap();
            if nan[..] == [0; 4] {
                *nan = (step as i32 + 1).to_le_bytes().to_vec();
            }
        }
        self.add("w", 0.5 * (mean - w));
        self.add("w.n", batch.len() as f32);
        self.add("sum.loss", self.loss * batch.len() as f32);
        if let Some((at, flag)) = &*self.fake.cancel_at.lock().unwrap() {
            flag.fetch_or(step == *at, Ordering::Relaxed);
        }
    }

    fn evaluate(&self, step: u32) {
        let (batch, w) = (self.batch(step), self.floats("w")[0]);
        let total = self.bound.keys().find(|name| name.ends_with(".sum.error")).unwrap();
        self.add(total, batch.iter().map(|x| (x - w).abs()).sum());
    }

    fn infer(&mut self) {
        let w = self.floats("w")[0];
        self.y = self.floats("x").iter().flat_map(|x| (x * w).to_le_bytes()).collect();
    }
}

impl Executable for FakeExecutable {
    fn arena_bytes(&self) -> usize {
        self.plan.arena_bytes
    }
    fn scratch_bytes(&self) -> usize {
        16
    }
    fn bind(&mut self, input: &str, buffer: &DeviceBuffer) -> Result<(), DeviceError> {
        self.bound.insert(input.to_string(), buffer.clone());
        Ok(())
    }
    fn run(&mut self, first_step: u32, n_steps: u32) -> Result<(), RunError> {
        for step in first_step..first_step + n_steps {
            match self.plan.name.split(' ').next().unwrap() {
                "train" => self.train(step),
                "infer" => self.infer(),
                _ => self.evaluate(step),
            }
        }
        Ok(())
    }
    fn read_output(&self, name: &str, bytes: &mut [u8]) -> Result<(), DeviceError> {
        match name {
            "loss" => bytes.copy_from_slice(&self.loss.to_le_bytes()),
            "y" => bytes.copy_from_slice(&self.y),
            _ => {
                let (plan, output) = (self.plan.name.clone(), name.to_string());
                return Err(DeviceError::UnknownOutput { plan, output });
            }
        }
        Ok(())
    }
    fn profile(&mut self, _: u32) -> Result<Vec<KernelTime>, RunError> {
        Ok(vec![])
    }
}
