//! Training steps of shipped pipelines.

use super::*;

const ROWS: usize = 60_000;

pub fn load(file: &str) -> (Pipeline, Registry) {
    let text = std::fs::read_to_string(format!("graphs/{file}")).unwrap();
    let mut registry = Engine::new().registry;
    (parsed(file, text, &mut registry), registry)
}

fn train_stage(pipeline: &Pipeline) -> &TrainStage {
    pipeline.stages.iter().find_map(Stage::get).unwrap()
}

fn training(file: &str, fuse: bool, device: &dyn Device) -> (Compiled, Pipeline) {
    let (pipeline, registry) = load(file);
    let fields =
        vec![("images".into(), Type::new(DType::U8, &[784])), ("labels".into(), Type::scalar(DType::U8))];
    let digits = SplitShape { data: "digits".into(), n_rows: ROWS, n_held: ROWS, fields };
    let rows = Rows::Batches { batch: 128, per_epoch: ROWS.div_ceil(128) };
    let step = stage::training(&pipeline, train_stage(&pipeline), &digits, rows, &registry).unwrap();
    let model = device.model();
    let options = Options { fuse, device: model, ..Options::default() };
    (compile(&step.graph, &registry, &options), pipeline)
}

/// A training stage, compiled for a device.
pub struct Trainer {
    executable: Box<dyn Executable>,
    buffers: HashMap<String, DeviceBuffer>,
    device: Arc<dyn Device>,
}

impl Trainer {
    pub fn new(file: &str, fuse: bool, device: Arc<dyn Device>) -> Trainer {
        let (compiled, pipeline) = training(file, fuse, &*device);
        let bytes = |n: usize, most: f64, seed| noise(n, seed).map(move |x| ((x + 1.0) / 2.0 * most) as u8);
        let plan = Arc::new(compiled.plan);
        let (executable, buffers) = bound(&*device, &plan, pipeline.seed, |name| match name {
            "digits.images" => Some(bytes(ROWS * 784, 256.0, 1).collect()),
            "digits.labels" => Some(bytes(ROWS, 10.0, 2).collect()),
            "order" => {
                Some((0..ROWS as i32).flat_map(|i| ((i * 7919) % ROWS as i32).to_le_bytes()).collect())
            }
            _ => {
                let param = pipeline.params.iter().find(|param| *param.name == *name)?;
                Some(initial_values(param, pipeline.seed).unwrap().bytes().to_vec())
            }
        })
        .unwrap();
        Trainer { executable, buffers, device }
    }

    pub fn losses(&mut self, n_steps: u32) -> Vec<f32> {
        let mut step = |step| {
            self.executable.run(step, 1).unwrap();
            let mut loss = [0; 4];
            self.executable.read_output("loss", &mut loss).unwrap();
            f32::from_le_bytes(loss)
        };
        (0..n_steps).map(&mut step).collect()
    }

    fn state(&self, name: &str) -> Vec<u8> {
        let mut bytes = vec![0; self.buffers[name].bytes()];
        self.device.read(&self.buffers[name], 0, &mut bytes).unwrap();
        bytes
    }
}

pub fn assert_close(found: &[f32], expected: &[f32], tolerance: f32) {
    for (step, (x, y)) in found.iter().zip(expected).enumerate() {
        assert!((x - y).abs() <= tolerance * y.abs(), "step {step}: {x} and {y}");
    }
}

#[test]
fn training_steps_have_the_losses_of_the_cpu() {
    for file in ["mnist.ron", "mnist_decomposed.ron"] {
        for (gpu, fuse) in gpus().iter().flat_map(|gpu| [(gpu, true), (gpu, false)]) {
            let on_gpu = Trainer::new(file, fuse, Arc::clone(gpu)).losses(20);
            let on_cpu = Trainer::new(file, fuse, cpu()).losses(20);
            // The tolerance of a matmul over 784 is 1e-5·√784. Adam turns the smallest differences into steps of the
            // rate, so later losses diverge.
            assert_close(&on_gpu, &on_cpu, 2.8e-4);
        }
    }
}

#[test]
fn many_steps_at_once_are_many_steps() {
    for gpu in gpus() {
        let mut one_by_one = Trainer::new("mnist.ron", true, Arc::clone(gpu));
        (0..36).for_each(|step| one_by_one.executable.run(step, 1).unwrap());
        let mut at_once = Trainer::new("mnist.ron", true, Arc::clone(gpu));
        at_once.executable.run(0, 36).unwrap();
        for name in ["w1", "b1", "w2", "b2"] {
            assert_eq!(one_by_one.state(name), at_once.state(name), "{name}");
        }
    }
}

/// Thousands of steps, for which CUDA makes graphs of hundreds.
#[test]
fn every_one_of_thousands_of_steps_has_its_number() {
    let case = Case::of({
        let registry = Registry::new();
        let mut builder = Builder::new(Graph::new("case"), &registry);
        let b = &mut builder;
        let sum = b.input("sum", InputKind::Param, Type::new(DType::F32, &[64]));
        let kept = b.full_like(sum, 0.9999);
        let kept = b.mul(sum, kept);
        let drawn = b.random_uniform("drawn", &[64]);
        let next = b.add(kept, drawn);
        b.graph.state = vec![StateLink { input: sum.node, next }];
        builder.graph.pruned()
    });
    let sums = |device: &dyn Device, runs: &[(u32, u32)]| {
        let (mut executable, buffers) = bound(device, &case.plan(device, true), 7, |_| None).unwrap();
        runs.iter().for_each(|&(first, n_steps)| executable.run(first, n_steps).unwrap());
        let mut bytes = vec![0; 4 * 64];
        device.read(&buffers["sum"], 0, &mut bytes).unwrap();
        bytes
    };
    // Going back ends a sequence of steps: the following step is not always the next number. Sequences with equal ends
    // share a graph.
    let by_sixteen: Vec<_> = (0..375).map(|i| (16 * i, 16)).chain([(3, 320), (323, 20)]).collect();
    let by_hundred: Vec<_> = (0..60).map(|i| (100 * i, 100)).chain([(3, 340)]).collect();
    for gpu in gpus() {
        let expected = sums(&**gpu, &by_sixteen);
        assert_eq!(sums(&**gpu, &[(0, 5130), (5130, 870), (3, 340)]), expected);
        assert_eq!(sums(&**gpu, &by_hundred), expected);
    }
}

#[test]
fn a_profile_names_every_launch() {
    for gpu in gpus() {
        let mut trainer = Trainer::new("mnist.ron", true, Arc::clone(gpu));
        trainer.executable.run(0, 3).unwrap();
        let times = trainer.executable.profile(3).unwrap();
        assert_eq!(times.len(), training("mnist.ron", true, &**gpu).0.plan.launches.len());
        // Emulated GPUs are slow.
        assert!(times.iter().all(|time| time.seconds > 0.0 && time.seconds < 5.0), "{times:?}");
    }
}
