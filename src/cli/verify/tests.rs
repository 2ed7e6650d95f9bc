#![allow(clippy::unwrap_used)]

use engine_core::compile::Options;
use engine_core::ir::{Attrs, Builder, DType, Graph, Type, parse};
use engine_core::oracle::OracleTensor;
use engine_core::pipeline::Mode;
use engine_core::testing;
use engine_runtime::device::{DeviceBuffer, DeviceError, DeviceInfo, Executable, KernelTime, RunError};
use engine_runtime::session::{CompilingPlanner, Request};
use engine_runtime::tensor::HostTensor;

use super::errors::{instead_of_nan, nearer, unit_in_last_place};
use super::page::Peer;
use super::*;
use crate::Program;
use crate::cli::comparison::operands::{self, operands};
use crate::cli::selftest::tests::{failing, is_of_machine};
use crate::devices::{self, Choice};

#[test]
fn errors_are_counted_in_units_of_the_last_place() {
    assert_eq!(unit_in_last_place(1.0, DType::F32), f64::from(f32::EPSILON));
    assert_eq!(unit_in_last_place(-3.0, DType::F16), 2.0 * 2f64.powi(-10));
    let expected = OracleTensor::new(DType::F32, &[3], &[1.0, 2.0, -4.0]);
    let off = [1.0, 2.0 + f32::EPSILON * 4.0, -4.0];
    let found = HostTensor::from_slice(&[3], &off).unwrap_or_else(|error| panic!("{error}"));
    let mut histogram = Histogram::default();
    assert_eq!(histogram.count(&found, &expected, 1e-5, &[]), Ok(()));
    assert_eq!(histogram.counts, [2, 0, 1, 0, 0, 0]);
    assert_eq!(
        histogram.count(&found, &expected, 1e-9, &[]),
        Err("[1] is 2.000000476837158 instead of 2".to_string())
    );
}

/// A hidden infinity is NaN in the interpreter, which multiplies it by 0. What is found as NaN, or expected as a number, stays.
#[test]
fn another_number_stands_for_nan_where_a_number_was_found() {
    let [one, other] = [[f64::NAN, f64::NAN, 1.0, f64::INFINITY], [2.0, 3.0, 4.0, 5.0]]
        .map(|numbers| OracleTensor::new(DType::F32, &[4], &numbers));
    let found = HostTensor::from_slice(&[4], &[7.0f32, f32::NAN, 8.0, 9.0]).unwrap();
    let chosen = instead_of_nan(&found, &one, &other).to_f64();
    assert!(chosen[1].is_nan());
    assert_eq!([chosen[0], chosen[2], chosen[3]], [2.0, 1.0, f64::INFINITY]);
}

#[test]
fn places_may_change_where_elements_are_near() {
    let from = OracleTensor::new(DType::F32, &[2, 3], &[1.0, 1.0 + 1e-7, 5.0, -2.0, 3.0, 4.0]);
    let expected = OracleTensor::new(DType::I32, &[2, 2], &[0.0, 1.0, 0.0, 1.0]);
    let count = |places: [i32; 4]| {
        let found = HostTensor::from_slice(&[2, 2], &places).unwrap();
        Histogram::default().count_places(&found, &expected, &from, 1e-6)
    };
    assert_eq!(count([0, 1, 0, 1]), Ok(()));
    assert_eq!(count([1, 0, 0, 1]), Ok(()));
    assert_eq!(count([0, 2, 0, 1]), Err("[1] is 2 instead of 1".to_string()));
    assert_eq!(count([0, 1, 1, 0]), Err("[2] is 1 instead of 0".to_string()));
    assert_eq!(count([0, 1, 0, 7]), Err("[3] is 7 instead of 1".to_string()));
    assert_eq!(count([0, 1, 0, -1]), Err("[3] is -1 instead of 1".to_string()));
}

/// A faulty device: the outputs of some plans are changed.
struct Faulty(Arc<dyn Device>, fn(&Plan) -> bool, fn(&mut [u8]));

fn first_float_is_off_by_one(bytes: &mut [u8]) {
    let first = f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    bytes[..4].copy_from_slice(&(first + 1.0).to_le_bytes());
}

fn first_index_is_the_next_of_four(bytes: &mut [u8]) {
    bytes[0] = (bytes[0] + 1) % 4;
}

fn has_exp(plan: &Plan) -> bool {
    plan.kernels.iter().any(|kernel| kernel.ops.iter().any(|op| op == "exp"))
}

impl Device for Faulty {
    fn info(&self) -> DeviceInfo {
        self.0.info()
    }
    fn allocate(&self, bytes: usize) -> Result<DeviceBuffer, DeviceError> {
        self.0.allocate(bytes)
    }
    fn write(&self, buffer: &DeviceBuffer, offset: usize, bytes: &[u8]) -> Result<(), DeviceError> {
        self.0.write(buffer, offset, bytes)
    }
    fn read(&self, buffer: &DeviceBuffer, offset: usize, bytes: &mut [u8]) -> Result<(), DeviceError> {
        self.0.read(buffer, offset, bytes)
    }
    fn prepare(&self, plan: Arc<Plan>, seed: u64) -> Result<Box<dyn Executable>, DeviceError> {
        let change = self.1(&plan).then_some(self.2);
        Ok(Box::new(FaultyRun { inner: self.0.prepare(plan, seed)?, change }))
    }
}

struct FaultyRun {
    inner: Box<dyn Executable>,
    change: Option<fn(&mut [u8])>,
}

impl Executable for FaultyRun {
    fn arena_bytes(&self) -> usize {
        self.inner.arena_bytes()
    }
    fn scratch_bytes(&self) -> usize {
        self.inner.scratch_bytes()
    }
    fn bind(&mut self, input: &str, buffer: &DeviceBuffer) -> Result<(), DeviceError> {
        self.inner.bind(input, buffer)
    }
    fn run(&mut self, first_step: u32, n_steps: u32) -> Result<(), RunError> {
        self.inner.run(first_step, n_steps)
    }
    fn read_output(&self, name: &str, bytes: &mut [u8]) -> Result<(), DeviceError> {
        self.inner.read_output(name, bytes)?;
        if let Some(change) = self.change {
            change(bytes);
        }
        Ok(())
    }
    fn profile(&mut self, step: u32) -> Result<Vec<KernelTime>, RunError> {
        self.inner.profile(step)
    }
}

#[test]
fn a_wrong_kernel_is_shrunk_to_the_nodes_that_make_it_wrong() {
    let text = r#"(
        inputs: {"x": "f32[8]"},
        nodes: {"half": "x * 0.5", "e": "exp(half)", "more": "e + 1.0", "y": "sqrt(more)"},
        stages: {"go": Run(outputs: ["y"])},
    )"#;
    let engine = Engine::new();
    let Program { pipeline, registry } = engine.read("chain.ron", text).unwrap();
    let pipeline = Arc::new(pipeline);
    let planner = CompilingPlanner::new(pipeline, registry, Options::default());
    let request = Request::Inference {
        outputs: &[("y".into(), "y".into())],
        extents: &[],
        fixed: &[],
        behaviour: Mode::Eval.into(),
    };
    let compiled = planner.compile(&request).unwrap().compiled;
    let [kernel] = &compiled.plan.kernels[..] else { panic!("{}", compiled.kernels_text()) };

    let sound = devices::open(Choice::Cpu, Some(1)).unwrap().device;
    assert!(check(kernel, &compiled, &sound).is_ok());
    let faulty: Arc<dyn Device> = Arc::new(Faulty(sound, has_exp, first_float_is_off_by_one));
    let Err(Fault::Wrong(why)) = check(kernel, &compiled, &faulty) else { panic!("not noticed") };
    assert!(why.starts_with("`y`[0] is "), "{why}");
    // The nodes before are recomputed by every kernel that uses them.
    assert!(why.ends_with("; the smallest wrong fusion is `e`"), "{why}");
    for (device, code) in failing() {
        let device: Arc<dyn Device> = Arc::new(device);
        let outcome = check(kernel, &compiled, &device);
        let failure = Tally::default().count("y", outcome, |histogram| histogram.text()).unwrap_err();
        assert!(is_of_machine(&failure, code), "{}", failure.text);
    }
}

fn compiled(text: &str, outputs: &[&str]) -> Compiled {
    let engine = Engine::new();
    let Program { pipeline, registry } = engine.read("case.ron", text).unwrap();
    let pipeline = Arc::new(pipeline);
    let planner = CompilingPlanner::new(pipeline, registry, Options::default());
    let named: Vec<_> = outputs.iter().map(|&name| (name.into(), name.into())).collect();
    let behaviour = Mode::Eval.into();
    let request = Request::Inference { outputs: &named, extents: &[], fixed: &[], behaviour };
    planner.compile(&request).unwrap().compiled
}

#[test]
fn devices_that_choose_between_equal_elements_are_both_right() {
    let text = r#"(
        inputs: {"x": "f32[2, 4]"},
        nodes: {"double": "x * 2.0", "y": "argmax(double, axis=1)"},
        stages: {"go": Run(outputs: ["y"])},
    )"#;
    let compiled = compiled(text, &["y"]);
    let [kernel] = &compiled.plan.kernels[..] else { panic!("{}", compiled.kernels_text()) };
    let sound = devices::open(Choice::Cpu, Some(1)).unwrap().device;
    let faulty: Arc<dyn Device> =
        Arc::new(Faulty(Arc::clone(&sound), |_| true, first_index_is_the_next_of_four));
    let peers =
        [sound, faulty].map(|device| Peer { choice: Choice::Cpu, device, options: Options::default() });
    let row = parity::kernel_row(kernel, &compiled, false, &peers).unwrap();
    let text = row.cells[0].text("other");
    assert!(text.contains("both right: of zeros, `y`[0] is 1 instead of 0"), "{text}");
    let (_, why) = row.cells[0].beyond.as_ref().unwrap();
    assert!(!why.contains("zeros"), "{why}");
}

#[test]
fn a_plan_is_checked_as_a_whole() {
    let text = r#"(
        inputs: {"x": "f32[4]"},
        nodes: {"s": "cumsum(x)", "a": "s * 10.0", "r": "reshape(s, shape=[2, 2])", "c": "cumsum(r, axis=1)"},
        stages: {"go": Run(outputs: ["a", "c"])},
    )"#;
    let compiled = compiled(text, &["a", "c"]);
    let sound = devices::open(Choice::Cpu, Some(1)).unwrap().device;
    assert!(check_plan(&compiled, &sound).is_ok());
    let faulty: Arc<dyn Device> =
        Arc::new(Faulty(sound, |plan| plan.kernels.len() > 1, first_float_is_off_by_one));
    for kernel in &compiled.plan.kernels {
        assert!(check(kernel, &compiled, &faulty).is_ok());
    }
    let Err(Fault::Wrong(why)) = check_plan(&compiled, &faulty) else { panic!("not noticed") };
    assert!(why.starts_with("`a`[0] is "), "{why}");
}

/// The graph overflows. Its plan does not, since it subtracts the largest logit first.
#[test]
fn a_plan_that_overflows_later_than_its_graph_is_right() {
    let text = r#"(
        inputs: {"x": "f32[4, 64]"},
        nodes: {"z": "x * 5e2", "e": "exp(z)", "s": "sum(e, axis=1, keepdim=true)", "y": "z - log(s)"},
        stages: {"go": Run(outputs: ["y"])},
    )"#;
    let compiled = compiled(text, &["y"]);
    let device = devices::open(Choice::Cpu, Some(1)).unwrap().device;
    let checked = check_plan(&compiled, &device);
    assert!(checked.is_ok(), "{:?}", checked.err());
}

/// All elements are rounding residues of terms that cancel, so no element is large compared with its error.
#[test]
fn rounding_residues_are_within_tolerance() {
    for z in
        ["1.0 - square(tanh(x * 20.0))", "(x * 1e7) % 0.7", "(x + 1e4) - 1e4 - x", "exp(x) / exp(x) - 1.0"]
    {
        let text = r#"(inputs: {"x": "f32[64]"}, nodes: {"z": "Z"}, stages: {"go": Run(outputs: ["z"])})"#;
        let compiled = compiled(&text.replace('Z', z), &["z"]);
        let device = devices::open(Choice::Cpu, Some(1)).unwrap().device;
        for kernel in &compiled.plan.kernels {
            let checked = check(kernel, &compiled, &device);
            assert!(checked.is_ok(), "{z}: {:?}", checked.err());
        }
        let checked = check_plan(&compiled, &device);
        assert!(checked.is_ok(), "{z}: {:?}", checked.err());
    }
}

/// The operands are squares, and the op declares its operand to be at least zero.
#[test]
fn operands_of_kernels_lie_in_the_ranges_of_the_ops_that_take_them() {
    let registry = Engine::new().registry;
    let mut builder = Builder::new(Graph::new("step"), &registry);
    let ty = Type::new(DType::F32, &[64]);
    let [w, g, m, v] = ["w", "g", "m", "v"].map(|name| builder.input(name, InputKind::Data, ty.clone()));
    let lr = builder.input("lr", InputKind::Data, Type::scalar(DType::F32));
    let next = builder.call("adam", &[w, g, lr, m, v], Attrs::default()).unwrap();
    builder.graph.outputs = vec![("next".into(), next[0])];
    for sort in Sort::ALL {
        let operands = operands(&builder.graph, &builder.graph, sort, 1.0).unwrap();
        let is_below = |name: &str| operands[name].to_f64().iter().any(|&x| x < 0.0);
        assert!(!is_below("v"), "{}", sort.text());
        assert!(is_below("m") || matches!(sort, Sort::Positive | Sort::Zero), "{}", sort.text());
    }
}

/// A device does not check the indices of a kernel alone.
#[test]
fn integers_are_indices_within_loops_too() {
    const TEXT: &str = "
        graph g {
          input h: f32[64]
          input i: i32[64]
          input x: f32[3]
          (y: f32[64]) = .loop(h, i, x, given=2, trips=200) {
            graph body {
              input c: f32[64]
              input n: i32[]
              input i: i32[64]
              input x: f32[3]
              g: f32[64] = .gather(x, i, axis=0)
              s: f32[64] = .add(c, g)
              output s = s
            }
          }
          output y = y
        }";
    let graph = parse(TEXT, &Engine::new().registry).unwrap();
    let indices = operands(&graph, &graph, Sort::Signed, 1.0).unwrap()["i"].to_f64();
    assert!(indices.iter().all(|index| (0.0..3.0).contains(index)), "{indices:?}");
}

/// Rows of chosen blocks of a search are such indices. Blocks behind the end would lead a GPU out of the base.
#[test]
fn integers_lead_to_valid_indices() {
    const TEXT: &str = "
        graph g {
          input blocks: i32[64]
          input x: f32[100]
          width: i32[64] = .const(16)
          rows: i32[64] = .mul(blocks, width)
          y: f32[64] = .gather(x, rows, axis=0)
          output y = y
        }";
    let graph = parse(TEXT, &Engine::new().registry).unwrap();
    let blocks = operands(&graph, &graph, Sort::Signed, 1.0).unwrap()["blocks"].to_f64();
    assert!(blocks.iter().all(|block| (0.0..7.0).contains(block)), "{blocks:?}");
    assert!(blocks.iter().any(|block| *block > 0.0), "{blocks:?}");
}

/// Divisors are checked before, perhaps in another kernel, so a device may divide by any operand.
#[test]
fn no_divisor_is_zero() {
    const TEXT: &str = "
        graph g {
          input a: i32[64]
          input b: i32[64]
          input c: i32[64]
          three: i32[64] = .const(3)
          less: i32[64] = .sub(c, three)
          x: i32[64] = .div(a, b)
          y: i32[64] = .rem(a, less)
          output x = x
          output y = y
        }";
    let graph = parse(TEXT, &Engine::new().registry).unwrap();
    for sort in Sort::ALL {
        let drawn = operands(&graph, &graph, sort, 1.0).unwrap();
        assert!(drawn["b"].to_f64().iter().all(|divisor| *divisor != 0.0), "{}", sort.text());
        assert!(drawn["c"].to_f64().iter().all(|number| *number != 3.0), "{}", sort.text());
    }
}

/// A float that leads out of range is no operand, since smaller integers do not help.
#[test]
fn indices_out_of_range_are_reported() {
    const TEXT: &str = "
        graph g {
          input x: f32[100]
          input at: f32[64]
          rows: i32[64] = .cast(at, dtype=i32)
          y: f32[64] = .gather(x, rows, axis=0)
          output y = y
        }";
    let graph = parse(TEXT, &Engine::new().registry).unwrap();
    let error = operands(&graph, &graph, Sort::Large, 1.0).unwrap_err();
    assert!(error.to_string().contains("rows"), "{error}");
}

#[test]
fn of_two_tensors_the_elements_that_are_nearer_are_taken() {
    let [nan, inf] = [f64::NAN, f64::INFINITY];
    let tensor = |values: &[f64]| OracleTensor::new(DType::F32, &[5], values);
    let found = HostTensor::from_slice(&[5], &[0.0, 3.0, f32::NAN, 1.0, f32::INFINITY]).unwrap();
    let nearer = nearer(&found, &tensor(&[4.0, 3.5, 1.0, nan, inf]), &tensor(&[1.0, 2.0, nan, 2.0, 0.0]));
    let expected = [1.0, 3.5, nan, 2.0, inf];
    assert!(nearer.to_f64().iter().zip(expected).all(|(&a, b)| errors::is_equal(a, b)), "{nearer:?}");
}

/// For a number outside (0, 1), the drawn token is undefined.
#[test]
fn operands_lie_in_the_ranges_of_their_ops() {
    let registry = crate::Engine::new().registry;
    let form = registry.op("sample_logits").unwrap();
    let mut n_larger = 0;
    for example in &form.examples {
        let case = testing::case(example, &registry).unwrap();
        let Some(larger) = operands::enlarged(&case.graph) else { continue };
        n_larger += 1;
        for sort in operands::Sort::ALL {
            let operands = operands::enlarged_operands(&case, &larger, sort);
            let uniform = operands["b"].to_f64();
            assert!(uniform.iter().all(|u| (0.0..=1.0).contains(u)), "{}: {uniform:?}", sort.text());
        }
        let logits = operands::enlarged_operands(&case, &larger, operands::Sort::Large)["a"].to_f64();
        assert!(logits.iter().any(|logit| logit.abs() > 100.0), "they may be any numbers");
    }
    assert!(n_larger > 0);
}
