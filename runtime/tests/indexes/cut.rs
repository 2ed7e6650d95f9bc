//! Certificates of products in TF32, on a CPU that cuts factors as tensor cores do.

use crate::rows::{Kind, Random};
use crate::truth::{self, Value};
use crate::{many, matrix};
use engine::Engine;
use engine::core::compile::{Options, compile};
use engine::core::ir::{DType, E, Graph, Target, parse};
use engine::core::lower::primitives_for;
use engine::core::op::{OpForm, Registry};
use engine_runtime::cpu::CpuDevice;
use engine_runtime::device::{Device, DeviceBuffer, Executable};
use std::sync::Arc;

/// Cuts numbers behind ten bits of their mantissa. The rounded number has those bits; it is moved towards 0 if it lies
/// beyond the given one.
fn cut() -> OpForm {
    OpForm::unary(
        "cut_to_tf32",
        "Cuts.",
        |dtype| dtype == DType::F32,
        |x| {
            let near = rounded(x);
            let below = rounded(near * (1.0 - 2f64.powi(-11)));
            E::select(near.abs().gt(x.abs()), below, near)
        },
    )
}

fn rounded(x: E) -> E {
    let wide = x * 8193.0;
    wide - (wide - x)
}

/// The primitives of a search on a device with products in TF32, with their factors cut.
fn graph(text: &str, registry: &Registry) -> Graph {
    let target =
        Target { has_tf32: true, folds_columns: true, folds_columns_in_tf32: true, ..Target::default() };
    let graph = parse(text, registry).unwrap();
    let lowered = primitives_for(&graph, registry, target).to_string();
    let ty = |name: &str| {
        let start = format!("{name}: ");
        let of_line = |line: &str| {
            line.trim_start().trim_start_matches("input ").strip_prefix(&start).map(str::to_owned)
        };
        let rest = lowered.lines().find_map(of_line).unwrap_or_else(|| panic!("no {name} in\n{lowered}"));
        rest.split(" = ").next().unwrap().to_owned()
    };
    let mut n_cut = 0;
    let lines = lowered.lines().map(|line| {
        let Some((head, rest)) = line.split_once(".matmul(").filter(|_| line.contains("precision=tf32"))
        else {
            return format!("{line}\n");
        };
        n_cut += 1;
        let mut parts = rest.splitn(3, ", ");
        let [lhs, rhs] = [parts.next().unwrap(), parts.next().unwrap()];
        let cuts =
            [lhs, rhs].map(|name| format!("  {name}_cut{n_cut}: {} = cut_to_tf32({name})\n", ty(name)));
        format!(
            "{}{head}.matmul({lhs}_cut{n_cut}, {rhs}_cut{n_cut}, {}\n",
            cuts.concat(),
            parts.next().unwrap()
        )
    });
    let text: String = lines.collect();
    assert!(n_cut > 0, "{lowered}");
    parse(&text, registry).unwrap_or_else(|error| panic!("{error:?}\n{text}"))
}

/// A search whose products are cut.
struct Search {
    sizes: [usize; 4],
    metric: &'static str,
    executable: Box<dyn Executable>,
    device: CpuDevice,
    buffers: [DeviceBuffer; 2],
}

impl Search {
    fn new(sizes: [usize; 4], metric: &'static str) -> Search {
        let [m, n, d, k] = sizes;
        let mut registry = Engine::new().registry;
        registry.add(cut());
        let text = format!(
            "graph search {{\n  input q: f32[{m}, {d}]\n  input x: f32[{n}, {d}]\n\
             (v: f32[{m}, {k}], i: i32[{m}, {k}], c: bool[{m}], s: i32[{m}]) = \
             nearest(q, x, coarse=\"tf32\", exact=false, k={k}, margin=0, metric=\"{metric}\")\n\
             h: f32[{m}, {d}] = cut_to_tf32(q)\n\
             output i = i\n  output c = c\n  output h = h\n}}\n"
        );
        let device = CpuDevice::new(Some(1)).unwrap();
        let options = Options { device: device.model(), ..Options::default() };
        let plan = Arc::new(compile(&graph(&text, &registry), &registry, &options).plan);
        let mut executable = device.prepare(plan, 1).unwrap();
        let buffers = [("q", m), ("x", n)].map(|(name, rows)| {
            let buffer = device.allocate(4 * rows * d).unwrap();
            executable.bind(name, &buffer).unwrap();
            buffer
        });
        Search { sizes, metric, executable, device, buffers }
    }

    fn read<const N: usize>(&self, name: &str, count: usize) -> Vec<[u8; N]> {
        let mut bytes = vec![0; N * count];
        self.executable.read_output(name, &mut bytes).unwrap();
        bytes.as_chunks().0.to_vec()
    }

    /// Searches drawn rows, and returns how many results were certain.
    fn check(&mut self, kind: Kind, random: &mut Random) -> usize {
        let [m, n, d, k] = self.sizes;
        let x = kind.rows(random, [n, d]);
        let q = kind.queries(random, &x, [m, d]);
        for (buffer, tensor) in self.buffers.iter().zip([matrix([m, d], &q), matrix([n, d], &x)]) {
            self.device.write(buffer, 0, tensor.bytes()).unwrap();
        }
        self.executable.run(0, 1).unwrap();
        for (found, &given) in self.read::<4>("h", m * d).into_iter().map(f32::from_le_bytes).zip(&q) {
            let wanted = f32::from_bits(given.to_bits() & 0xffff_e000);
            assert!(
                found == wanted || given.abs() < 1e-30,
                "{given:e} is cut to {found:e}, not to {wanted:e}"
            );
        }
        let ids: Vec<f64> =
            self.read::<4>("i", m * k).into_iter().map(|id| f64::from(i32::from_le_bytes(id))).collect();
        let certain = self.read::<1>("c", m);
        for query in (0..m).filter(|&query| certain[query] == [1]) {
            let q = &q[query * d..][..d];
            let values = Value::all_of_squares(self.metric, q, &x);
            if let Some(fault) = truth::fault(&values, &x, &ids[query * k..][..k]) {
                panic!("{} of {kind:?}: {fault}\nquery {q:?}\nrows {x:?}", self.metric);
            }
        }
        certain.iter().filter(|certain| **certain == [1]).count()
    }
}

#[test]
fn no_certificate_of_a_product_in_tf32_is_wrong() {
    let mut random = Random::new(0x7f32);
    let (mut n_certain, mut n_cases) = (0, 0);
    for sizes in [[16, 200, 3, 2], [16, 130, 17, 1]] {
        for metric in crate::METRICS {
            let mut search = Search::new(sizes, metric);
            for _ in 0..many(5) {
                n_certain += search.check(random.pick(&Kind::ALL), &mut random);
                n_cases += sizes[0];
            }
        }
    }
    assert!(n_certain > n_cases / 20, "{n_certain} of {n_cases}");
    println!("{n_cases} searches in TF32, {n_certain} of them certain");
}
