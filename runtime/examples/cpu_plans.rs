//! Measures fused kernels on the CPU against a plain loop that reads and writes as many arrays on as many threads, and
//! a training step of a small classifier. `cargo run --release -p engine-runtime --example cpu_plans [THREADS [NAME]]`

use engine_core::fusion::fuse;
use engine_core::ir::*;
use engine_core::lower::primitives;
use engine_core::op::Registry;
use engine_core::plan::plan;
use engine_runtime::cpu::CpuDevice;
use engine_runtime::cpu::pool::Pool;
use engine_runtime::device::{Device, DeviceBuffer, Executable};
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let n_threads = std::env::args().nth(1).map_or(Ok(2), |text| text.parse())?;
    let (n, side) = (1 << 24, 4096);
    let (mut copy, mut blend) = (PlainLoop::new(n_threads, n, false)?, PlainLoop::new(n_threads, n, true)?);
    let kernels: [(&str, bool, Build); 4] = [
        ("relu(x·a + b)·g", true, |b| {
            let (y, g) = affine(b);
            let zero = b.full_like(y, 0.0);
            let y = b.binary(Binary::Max, y, zero);
            b.mul(y, g)
        }),
        ("silu(gelu(x·a + b))·g", true, |b| {
            let (y, g) = affine(b);
            let y = gelu(b, y);
            let y = silu(b, y);
            b.mul(y, g)
        }),
        ("softmax 4096²", false, |b| {
            let x = b.input("x", InputKind::Data, Type::new(DType::F32, &[4096, 4096]));
            softmax(b, x)
        }),
        ("Gumbel softmax 4096²", false, |b| {
            let x = b.input("x", InputKind::Data, Type::new(DType::F32, &[4096, 4096]));
            let u = b.random_uniform("u", &[4096, 4096]);
            let log = b.unary(Unary::Log, u);
            let minus = b.unary(Unary::Neg, log);
            let log = b.unary(Unary::Log, minus);
            let noisy = b.sub(x, log);
            softmax(b, noisy)
        }),
    ];
    assert_eq!(side * side, n);
    let wanted = std::env::args().nth(2).unwrap_or_default();
    for (name, reads_two, build) in kernels.into_iter().filter(|(name, ..)| name.starts_with(&wanted)) {
        let mut stage = Stage::new(n_threads, |b| {
            let y = build(b);
            b.graph.outputs.push(("y".into(), y));
        })?;
        let plain = if reads_two { &mut blend } else { &mut copy };
        let pairs = paired(&mut stage, plain)?;
        let ratio = |(time, plain): &(f64, f64)| time / plain;
        let [low, middle, high] = spread(pairs.iter().map(ratio).collect());
        let [_, time, _] = spread(pairs.iter().map(|pair| pair.0).collect());
        println!("{name}: {:.2} ms; of the plain loop {middle:.2} ({low:.2} to {high:.2})", 1e3 * time);
    }
    if !"classifier".starts_with(&wanted) {
        return Ok(());
    }
    let mut step = Stage::new(n_threads, classifier_step)?;
    println!("step of a 784-256-10 classifier, batch 128, Adam: {:.1} µs", 1e6 * step.seconds(50, 1000)?);
    for (launch, seconds) in step.profile(100)?.iter().enumerate() {
        println!("  {:6.1} µs  {}", 1e6 * seconds, step.names[launch]);
    }
    Ok(())
}

type Build = fn(&mut Builder) -> Value;

/// A graph compiled for the CPU, with buffers bound to its inputs.
struct Stage {
    executable: Box<dyn Executable>,
    names: Vec<String>,
    _buffers: Vec<DeviceBuffer>,
}

impl Stage {
    fn new(n_threads: usize, build: impl FnOnce(&mut Builder)) -> Result<Stage, Box<dyn Error>> {
        let registry = Registry::new();
        let mut builder = Builder::new(Graph::new("stage"), &registry);
        build(&mut builder);
        let graph = primitives(&builder.graph.pruned(), &registry);
        let plan = Arc::new(plan(&graph, fuse(&graph, true).kernels, 1));
        let kernels = plan.launches.iter().map(|launch| &plan.kernels[launch.kernel]);
        let names =
            kernels.map(|kernel| format!("{} {}: {}", kernel.kind(), kernel.name, kernel.ops.join(" ")));
        let names = names.collect();
        let device = CpuDevice::new(Some(n_threads))?;
        let mut executable = device.prepare(plan, 42)?;
        let mut buffers = vec![];
        for (node, kind) in graph.inputs().filter(|(_, kind)| *kind != InputKind::Step) {
            let ty = graph.ty(Value::of(node));
            let buffer = device.allocate(ty.bytes())?;
            if ty.dtype == DType::F32 && kind != InputKind::State {
                let values = (0..ty.numel()).flat_map(|i| ((i % 1013) as f32 * 1e-3 - 0.5).to_le_bytes());
                device.write(&buffer, 0, &values.collect::<Vec<u8>>())?;
            }
            executable.bind(graph.nodes[node].name(), &buffer)?;
            buffers.push(buffer);
        }
        Ok(Stage { executable, names, _buffers: buffers })
    }

    /// The mean time of a step.
    fn seconds(&mut self, n_warm: u32, n_steps: u32) -> Result<f64, Box<dyn Error>> {
        self.executable.run(0, n_warm)?;
        let begin = Clock::now();
        self.executable.run(n_warm, n_steps)?;
        Ok(begin.seconds() / n_steps as f64)
    }

    /// The least time of each launch.
    fn profile(&mut self, n_steps: u32) -> Result<Vec<f64>, Box<dyn Error>> {
        let mut times = vec![vec![]; self.names.len()];
        for step in 0..n_steps {
            let launches = self.executable.profile(step)?;
            launches.iter().for_each(|time| times[time.launch].push(time.seconds));
        }
        Ok(times.into_iter().map(least).collect())
    }
}

/// Time on the processor where the system tells (Linux, one thread), else on the wall: what else runs on the machine
/// then does not count.
struct Clock(Instant, Option<u64>);

impl Clock {
    fn now() -> Clock {
        Clock(Instant::now(), Clock::nanoseconds())
    }

    fn seconds(&self) -> f64 {
        match (self.1, Clock::nanoseconds()) {
            (Some(begin), Some(end)) => (end - begin) as f64 * 1e-9,
            _ => self.0.elapsed().as_secs_f64(),
        }
    }

    fn nanoseconds() -> Option<u64> {
        if std::env::args().nth(1).is_none_or(|n_threads| n_threads != "1") {
            return None;
        }
        std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split_whitespace().next()?.parse().ok()
    }
}

/// Least rather than median: what else runs on the machine only adds.
fn least(times: Vec<f64>) -> f64 {
    times.into_iter().fold(f64::INFINITY, f64::min)
}

/// The mean times of a step and of the plain loop, by turns: what slows the machine for a while then slows both.
fn paired(stage: &mut Stage, plain: &mut PlainLoop) -> Result<Vec<(f64, f64)>, Box<dyn Error>> {
    stage.seconds(3, 1)?;
    plain.seconds(3);
    (0..N_PAIRS).map(|_| Ok((stage.seconds(0, 5)?, plain.seconds(5)))).collect()
}

const N_PAIRS: usize = 15;

/// The tenth, the half and the nine tenths of the values lie below these.
fn spread(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 5, 9].map(|tenths| values[(values.len() - 1) * tenths / 10])
}

/// `y[i] = x[i] + 1` or `y[i] = x[i] + g[i]`, in chunks over a pool.
struct PlainLoop {
    pool: Pool,
    x: Vec<f32>,
    g: Option<Vec<f32>>,
    y: Vec<f32>,
}

impl PlainLoop {
    fn new(n_threads: usize, n: usize, reads_two: bool) -> Result<PlainLoop, Box<dyn Error>> {
        let pool = Pool::new(n_threads)?;
        Ok(PlainLoop { pool, x: vec![1.0; n], g: reads_two.then(|| vec![2.0; n]), y: vec![0.0; n] })
    }

    /// The mean time of a round.
    fn seconds(&mut self, n_rounds: u32) -> f64 {
        const CHUNK: usize = 65536;
        let PlainLoop { pool, x, g, y } = self;
        let n_chunks = y.len() / CHUNK;
        let mut chunks: Vec<&mut [f32]> = y.chunks_mut(CHUNK).collect();
        let begin = Clock::now();
        for _ in 0..n_rounds {
            let chunks = Shared(chunks.as_mut_ptr());
            let chunks = &chunks;
            pool.run(n_chunks, &|chunk, _| {
                // SAFETY: each chunk is taken once.
                let y = unsafe { &mut *chunks.0.add(chunk) };
                let x = &x[chunk * CHUNK..][..CHUNK];
                match g.as_ref().map(|g| &g[chunk * CHUNK..][..CHUNK]) {
                    Some(g) => y.iter_mut().zip(x).zip(g).for_each(|((y, x), g)| *y = x + g),
                    None => y.iter_mut().zip(x).for_each(|(y, x)| *y = x + 1.0),
                }
            });
        }
        begin.seconds() / n_rounds as f64
    }
}

struct Shared<'a>(*mut &'a mut [f32]);
// SAFETY: the threads take different elements.
unsafe impl Sync for Shared<'_> {}

/// `x·a + b` and `g`.
fn affine(b: &mut Builder) -> (Value, Value) {
    let large = Type::new(DType::F32, &[1 << 24]);
    let [x, g] = ["x", "g"].map(|name| b.input(name, InputKind::Data, large.clone()));
    let [scale, shift] = ["a", "b"].map(|name| b.input(name, InputKind::Param, Type::scalar(DType::F32)));
    let y = b.mul(x, scale);
    (b.add(y, shift), g)
}

/// `½x(1 + erf(x/√2))`
fn gelu(b: &mut Builder, x: Value) -> Value {
    let scaled = b.scale(x, std::f64::consts::FRAC_1_SQRT_2);
    let erf = b.unary(Unary::Erf, scaled);
    let one = b.full_like(erf, 1.0);
    let sum = b.add(erf, one);
    let half = b.scale(x, 0.5);
    b.mul(half, sum)
}

/// `x / (1 + e⁻ˣ)`
fn silu(b: &mut Builder, x: Value) -> Value {
    let minus = b.unary(Unary::Neg, x);
    let e = b.unary(Unary::Exp, minus);
    let one = b.full_like(e, 1.0);
    let sum = b.add(e, one);
    b.div(x, sum)
}

fn softmax(b: &mut Builder, x: Value) -> Value {
    let m = b.reduce(Monoid::Max, x, &[1]);
    let m = b.unreduce(m, &[1], x);
    let shifted = b.sub(x, m);
    let e = b.unary(Unary::Exp, shifted);
    let s = b.sum(e, &[1]);
    let s = b.unreduce(s, &[1], x);
    b.div(e, s)
}

/// A training step on 60 000 images of 784 bytes.
fn classifier_step(b: &mut Builder) {
    let bytes = |extents: &[usize]| Type::new(DType::U8, extents);
    let f32s = |extents: &[usize]| Type::new(DType::F32, extents);
    let images = b.input("images", InputKind::Data, bytes(&[60_000, 784]));
    let labels = b.input("labels", InputKind::Data, bytes(&[60_000]));
    let order = b.input("order", InputKind::Data, Type::new(DType::I32, &[60_000]));
    let shapes: [(&str, &[usize]); 4] =
        [("w1", &[784, 256]), ("b1", &[256]), ("w2", &[256, 10]), ("b2", &[10])];
    let params = shapes.map(|(name, shape)| b.input(name, InputKind::Param, f32s(shape)));
    let [w1, b1, w2, b2] = params;
    let step = b.step();
    let n_steps = b.full(Literal::Int(468), Type::scalar(DType::I32));
    let at = b.binary(Binary::Rem, step, n_steps);
    let at = b.scale(at, 128.0);
    let i = b.iota(0, Type::new(DType::I32, &[128]));
    let at = b.add(at, i);
    let rows = b.gather(order, at, 0, 0);
    let x = b.gather(images, rows, 0, 0);
    let x = b.cast(x, DType::F32);
    let x = b.scale(x, 1.0 / 255.0);
    let label = b.gather(labels, rows, 0, 0);
    let label = b.cast(label, DType::I32);
    let pre = b.mm(x, w1);
    let pre = b.add(pre, b1);
    let zero = b.full_like(pre, 0.0);
    let h = b.binary(Binary::Max, pre, zero);
    let logits = b.mm(h, w2);
    let logits = b.add(logits, b2);
    let p = softmax(b, logits);
    let classes = b.iota(1, Type::new(DType::I32, &[128, 10]));
    let label = b.broadcast_axes(label, &[0], &[128usize.into(), 10usize.into()]);
    let hit = b.binary(Binary::Eq, classes, label);
    let hit = b.cast(hit, DType::F32);
    let log = b.unary(Unary::Log, p);
    let nll = b.mul(log, hit);
    let loss = b.sum(nll, &[1]);
    let loss = b.mean(loss, &[0]);
    b.graph.outputs.push(("loss".into(), loss));
    let d = b.sub(p, hit);
    let d = b.scale(d, 1.0 / 128.0);
    let contracted = |l, r| MatmulSpec::new(vec![], vec![(l, r)]);
    let db2 = b.sum(d, &[0]);
    let dw2 = b.matmul(h, d, contracted(0, 0));
    let dh = b.matmul(d, w2, contracted(1, 1));
    let mask = b.binary(Binary::Gt, h, zero);
    let dh = b.scalar(Scalar::Select, &[mask, dh, zero]);
    let db1 = b.sum(dh, &[0]);
    let dw1 = b.matmul(x, dh, contracted(0, 0));
    for ((param, grad), (name, shape)) in params.into_iter().zip([dw1, db1, dw2, db2]).zip(shapes) {
        adam(b, param, grad, name, f32s(shape));
    }
}

/// One parameter's update (Kingma and Ba 2015), with β = (0.9, 0.999).
fn adam(b: &mut Builder, param: Value, grad: Value, name: &str, ty: Type) {
    let [m, v] = ["m", "v"].map(|slot| b.input(&format!("{name}.{slot}"), InputKind::State, ty.clone()));
    let (old_m, old_v) = (b.scale(m, 0.9), b.scale(v, 0.999));
    let new_m = b.scale(grad, 0.1);
    let next_m = b.add(old_m, new_m);
    let square = b.mul(grad, grad);
    let new_v = b.scale(square, 0.001);
    let next_v = b.add(old_v, new_v);
    let step = b.step();
    let t = b.cast(step, DType::F32);
    let one = b.constant(1.0, DType::F32);
    let t = b.add(t, one);
    let correction = |b: &mut Builder, beta: f64| {
        let beta = b.constant(beta, DType::F32);
        let power = b.binary(Binary::Pow, beta, t);
        let rest = b.sub(one, power);
        let rest = b.unary(Unary::Recip, rest);
        b.broadcast_dims(rest, &ty.shape)
    };
    let (of_m, of_v) = (correction(b, 0.9), correction(b, 0.999));
    let (m_hat, v_hat) = (b.mul(next_m, of_m), b.mul(next_v, of_v));
    let root = b.unary(Unary::Sqrt, v_hat);
    let tiny = b.full_like(root, 1e-8);
    let root = b.add(root, tiny);
    let delta = b.div(m_hat, root);
    let delta = b.scale(delta, 1e-3);
    let next = b.sub(param, delta);
    for (input, next) in [(param, next), (m, next_m), (v, next_v)] {
        b.graph.state.push(StateLink { input: input.node, next });
    }
}
