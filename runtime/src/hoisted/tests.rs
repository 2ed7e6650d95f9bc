#![allow(clippy::unwrap_used)]

use super::*;
use crate::cpu::CpuDevice;
use engine_core::compile::{Options, compile};
use engine_core::ir::{Builder, Combine, DType, Graph, InputKind, StateLink, Type, Value};
use engine_core::op::Registry;

fn plan(once: bool, build: impl FnOnce(&mut Builder)) -> Arc<Plan> {
    let registry = Registry::new();
    let mut b = Builder::new(Graph::new("g"), &registry);
    build(&mut b);
    let options = Options { once: once.then(Vec::new), ..Options::default() };
    Arc::new(compile(&b.graph, &registry, &options).plan)
}

/// `x + Σ w` for each row of `w`; with a step that doubles `w`, also that.
fn sums(b: &mut Builder) -> Value {
    let x = b.input("x", InputKind::Data, Type::new(DType::F32, &[2]));
    let w = b.input("w", InputKind::Param, Type::new(DType::F32, &[2, 3]));
    let sums = b.sum(w, &[1]);
    let y = b.add(x, sums);
    b.graph.outputs.push(("y".into(), y));
    w
}

struct Bound {
    device: CpuDevice,
    executable: Box<dyn Executable>,
    w: DeviceBuffer,
    x: DeviceBuffer,
}

impl Bound {
    fn new(plan: &Arc<Plan>) -> Bound {
        let device = CpuDevice::new(Some(1)).unwrap();
        let mut executable = device.prepare(Arc::clone(plan), 1).unwrap();
        let [x, w] = [8, 24].map(|bytes| device.allocate(bytes).unwrap());
        executable.bind("x", &x).unwrap();
        executable.bind("w", &w).unwrap();
        Bound { device, executable, w, x }
    }

    fn write(&self, buffer: &DeviceBuffer, numbers: &[f32]) {
        let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.device.write(buffer, 0, &bytes).unwrap();
    }

    fn y(&mut self, step: u32) -> Vec<f32> {
        self.executable.run(step, 2).unwrap();
        let mut bytes = [0; 8];
        self.executable.read_output("y", &mut bytes).unwrap();
        bytes.chunks(4).map(|x| f32::from_le_bytes(x.try_into().unwrap())).collect()
    }
}

#[test]
fn values_follow_writes_to_their_inputs() {
    let hoisted = plan(true, |b| _ = sums(b));
    assert!(hoisted.once.is_some());
    let mut bound = Bound::new(&hoisted);
    bound.write(&bound.x.clone(), &[10.0, 20.0]);
    bound.write(&bound.w.clone(), &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(bound.y(0), [16.0, 35.0]);
    bound.write(&bound.x.clone(), &[0.0, 0.0]);
    assert_eq!(bound.y(2), [6.0, 15.0]);
    bound.write(&bound.w.clone(), &[1.0; 6]);
    assert_eq!(bound.y(4), [3.0, 3.0]);
    // Another buffer has other values.
    let other = bound.device.allocate(24).unwrap();
    bound.write(&other, &[2.0; 6]);
    bound.executable.bind("w", &other).unwrap();
    assert_eq!(bound.y(6), [6.0, 6.0]);
    bound.executable.profile(8).unwrap();
    assert_eq!(bound.y(9), [6.0, 6.0]);
}

#[test]
fn values_follow_the_steps_of_other_plans() {
    let mut bound = Bound::new(&plan(true, |b| _ = sums(b)));
    bound.write(&bound.w.clone(), &[1.0; 6]);
    assert_eq!(bound.y(0), [3.0, 3.0]);
    let doubling = plan(true, |b| {
        let w = sums(b);
        let next = b.scale(w, 2.0);
        b.graph.state.push(StateLink { input: w.node, next });
    });
    assert!(doubling.once.is_none());
    let mut other = bound.device.prepare(doubling, 1).unwrap();
    other.bind("x", &bound.x).unwrap();
    other.bind("w", &bound.w).unwrap();
    other.run(0, 3).unwrap();
    assert_eq!(bound.y(1), [24.0, 24.0]);
}

/// The values of a failed part are not used.
#[test]
fn a_failed_check_fails_again() {
    let plan = plan(true, |b| {
        let x = b.input("x", InputKind::Data, Type::new(DType::F32, &[2]));
        let w = b.input("w", InputKind::Param, Type::new(DType::I32, &[2, 3]));
        let places = b.check_index(w, 4);
        let zeros = b.full(engine_core::ir::Literal::Float(0.0), Type::new(DType::F32, &[4]));
        let places = b.reshape(places, &[6]);
        let ones = b.full(engine_core::ir::Literal::Float(1.0), Type::new(DType::F32, &[6]));
        let counts = b.scatter(zeros, places, ones, 0, 0, Combine::Add);
        let counts = b.slice(counts, &[0], &[2], &[1]);
        let y = b.add(x, counts);
        b.graph.outputs.push(("y".into(), y));
    });
    assert!(plan.once.is_some());
    let mut bound = Bound::new(&plan);
    let write = |bound: &Bound, last: i32| {
        let bytes: Vec<u8> = [0, 1, 1, 0, 1, last].iter().flat_map(|x: &i32| x.to_le_bytes()).collect();
        bound.device.write(&bound.w, 0, &bytes).unwrap();
    };
    write(&bound, 7);
    for step in 0..2 {
        assert!(matches!(bound.executable.run(step, 1), Err(RunError::Assertion { .. })));
    }
    write(&bound, 3);
    assert_eq!(bound.y(2), [2.0, 3.0]);
}
