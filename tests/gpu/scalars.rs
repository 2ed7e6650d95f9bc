//! Every scalar primitive in every type at the limits of the types, on every device, compared with the interpreter.

use super::*;
use engine::core::oracle::{Oracle, OracleTensor};

/// The bits of zeros, ones, the limits of a type, infinities and NaN, and of their neighbours.
fn specials(dtype: DType) -> Vec<u64> {
    let both = |sizes: &[u64], sign: u64| sizes.iter().flat_map(|&bits| [bits, bits | sign]).collect();
    match dtype {
        DType::Bool => vec![0, 1],
        DType::U8 => vec![0, 1, 2, 3, 7, 8, 127, 128, 200, 255],
        DType::I8 => [0, 1, 2, 3, 7, 8, 100, 127].iter().flat_map(signed).collect(),
        DType::I16 => [0, 1, 2, 15, 16, 127, 182, 32767].iter().flat_map(signed).collect(),
        DType::U16 => vec![0, 1, 2, 3, 15, 16, 17, 255, 256, 0x7FFF, 0x8000, 0xFFFF],
        DType::U32 => vec![0, 1, 2, 3, 31, 32, 33, 255, 256, 65535, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF],
        DType::I32 => {
            [0, 1, 2, 3, 31, 32, 255, 46341, i32::MAX].map(i64::from).iter().flat_map(signed).collect()
        }
        DType::I64 => {
            let sizes = [0, 1, 3, 32, 63, 64, 1 << 31, (1 << 31) - 1, 1 << 32, 1 << 53, i64::MAX];
            sizes.iter().flat_map(signed).collect()
        }
        DType::F16 => {
            both(&[0, 1, 0x3FF, 0x400, 0x3C00, 0x3E00, 0x4248, 0x5640, 0x7BFF, 0x7C00, 0x7E00], 1 << 15)
        }
        DType::BF16 => {
            both(&[0, 1, 0x7F, 0x80, 0x3F80, 0x3FC0, 0x4049, 0x42C8, 0x4F00, 0x7F7F, 0x7F80, 0x7FC0], 1 << 15)
        }
        DType::F32 => {
            let sizes = [0.0, 1e-45, 1e-39, f32::MIN_POSITIVE, 1e-30, 1e-4, 0.5, 1.0, 1.5, 3.0, 88.0, 1e5];
            let large = [
                2f32.powi(24),
                2f32.powi(31),
                2f32.powi(63),
                1e14,
                1.6e27,
                f32::MAX,
                f32::INFINITY,
                f32::NAN,
            ];
            let bits: Vec<u64> = sizes.into_iter().chain(large).map(|x| x.to_bits().into()).collect();
            both(&bits, 1 << 31)
        }
        DType::F64 => {
            let sizes = [0.0, 5e-324, 1e-310, f64::MIN_POSITIVE, 1e-30, 1e-4, 0.5, 1.0, 1.5, 3.0, 700.0, 1e5];
            let large =
                [2f64.powi(31), 2f64.powi(53), 2f64.powi(63), 1e300, f64::MAX, f64::INFINITY, f64::NAN];
            let bits: Vec<u64> = sizes.into_iter().chain(large).map(f64::to_bits).collect();
            both(&bits, 1 << 63)
        }
    }
}

/// n, -n and the number after -n, as bits.
fn signed(n: &i64) -> [u64; 3] {
    [*n, -n, -n - 1].map(|n| n as u64)
}

fn bytes(dtype: DType, bits: &[u64]) -> Vec<u8> {
    bits.iter().flat_map(|bits| bits.to_le_bytes()[..dtype.size()].to_vec()).collect()
}

/// The primitives on two operands of that type. Divisors of integers are not 0.
fn primitives(b: &mut Builder, dtype: DType, [x, y, divisor]: [Value; 3]) -> Vec<(Scalar, Value)> {
    let is_bool = dtype == DType::Bool;
    let mut made = vec![];
    for &op in Unary::ALL {
        let takes = match op {
            Unary::Not => !dtype.is_float(),
            Unary::Popcount => dtype.is_int(),
            Unary::Neg | Unary::Abs | Unary::Sign => !is_bool,
            Unary::Floor | Unary::Ceil | Unary::Trunc | Unary::Round => !is_bool,
            _ => dtype.is_float(),
        };
        if takes {
            made.push((Scalar::Unary(op), vec![x]));
        }
    }
    for &op in Binary::ALL {
        let takes = match op {
            Binary::And | Binary::Or | Binary::Xor => !dtype.is_float(),
            Binary::Shl | Binary::Shr => dtype.is_int(),
            Binary::Max | Binary::Min => true,
            op => op.is_comparison() || !is_bool,
        };
        let right = if matches!(op, Binary::Div | Binary::Rem) && dtype.is_int() { divisor } else { y };
        if takes {
            made.push((Scalar::Binary(op), vec![x, right]));
        }
    }
    made.extend(DType::ALL.map(|to| (Scalar::Cast(to), vec![x])));
    made.into_iter().map(|(op, operands)| (op.clone(), b.scalar(op, &operands))).collect()
}

/// All pairs of special values, and the primitives over them.
fn case(dtype: DType) -> (Case, Vec<Scalar>) {
    let values = specials(dtype);
    let n = values.len();
    let registry = Engine::new().registry;
    let mut b = Builder::new(Graph::new("case"), &registry);
    let ty = Type::new(dtype, &[n * n]);
    let operands = ["x", "y", "divisor"].map(|name| b.input(name, InputKind::Data, ty.clone()));
    let (ops, results): (Vec<Scalar>, Vec<Value>) = primitives(&mut b, dtype, operands).into_iter().unzip();
    b.graph.outputs = results.iter().enumerate().map(|(i, &v)| (format!("out{i}").into(), v)).collect();
    let pair = |i: usize| (values[i / n], values[i % n]);
    let column = |value: &dyn Fn(usize) -> u64| bytes(dtype, &(0..n * n).map(value).collect::<Vec<u64>>());
    let inputs = HashMap::from([
        ("x".to_string(), column(&|i| pair(i).0)),
        ("y".to_string(), column(&|i| pair(i).1)),
        ("divisor".to_string(), column(&|i| if pair(i).1 == 0 { 1 } else { pair(i).1 })),
    ]);
    (Case { graph: b.graph.pruned(), inputs, is_in_order: false, matmul: Precision::F32 }, ops)
}

/// The results on a device, a few per kernel: NVIDIA's Vulkan driver needs more than nine minutes for one kernel of
/// all.
fn run(case: &Case, device: &dyn Device) -> Result<Vec<Vec<f64>>, RunError> {
    let mut found = vec![];
    for some in case.graph.outputs.chunks(8) {
        let graph = Graph { outputs: some.to_vec(), ..case.graph.clone() }.pruned();
        found.extend(Case { graph, inputs: case.inputs.clone(), ..*case }.run(device, true)?);
    }
    Ok(found)
}

/// The interpreter's results, first exact, then with subnormal operands flushed to zero, which WGSL allows.
fn expected(case: &Case, registry: &Registry) -> Vec<Vec<Vec<f64>>> {
    let flushes = [[false, false], [true, false], [false, true], [true, true]];
    let runs = flushes
        .iter()
        .flat_map(|flush| [Oracle::rounded(registry), Oracle::flushed(registry)].map(|o| (flush, o)));
    let of_run = |(flush, oracle): (&[bool; 2], Oracle)| {
        let inputs = case.graph.inputs().map(|(node, _)| {
            let (name, ty) = (case.graph.nodes[node].name(), case.graph.ty(Value::of(node)));
            let tensor = HostTensor::from_bytes(ty.dtype, &ty.extents(), &case.inputs[&**name]).unwrap();
            let flushed = flush[usize::from(&**name != "x")] && ty.dtype.is_float() && ty.dtype != DType::F64;
            let held =
                |x: f64| if flushed && x.abs() < f64::from(f32::MIN_POSITIVE) { 0f64.copysign(x) } else { x };
            let value = match ty.dtype {
                DType::I64 => {
                    let words = case.inputs[&**name]
                        .chunks_exact(8)
                        .map(|word| i64::from_le_bytes(word.try_into().unwrap()));
                    OracleTensor::ints(ty.dtype, &ty.extents(), words.collect())
                }
                _ => OracleTensor::new(
                    ty.dtype,
                    &ty.extents(),
                    &tensor.to_f64().into_iter().map(held).collect::<Vec<_>>(),
                ),
            };
            (name.to_string(), value)
        });
        let run = oracle.run(&case.graph, &inputs.collect(), 0, 0).unwrap();
        run.outputs.values().map(OracleTensor::to_f64).collect()
    };
    runs.map(of_run).collect()
}

/// The tolerance of a device, in units in the last place of the result.
fn most_units(op: &Scalar, on_gpu: bool) -> f64 {
    use Unary::{Cos, Erf, Exp, Expm1, Log, Log1p, Recip, Rsqrt, Sin, Sqrt, Tanh};
    match op {
        Scalar::Unary(Cos | Erf | Exp | Expm1 | Log | Log1p | Sin | Tanh) => 8.0,
        Scalar::Unary(Recip | Rsqrt | Sqrt) | Scalar::Binary(Binary::Div) => 4.0,
        Scalar::Binary(Binary::Pow) => {
            if on_gpu {
                1000.0
            } else {
                4.0
            }
        }
        Scalar::Binary(Binary::Add | Binary::Sub | Binary::Mul) => 1.0,
        Scalar::Cast(to) if to.is_float() => 1.0,
        _ => 0.0,
    }
}

fn is_near(a: f64, b: f64, units: f64, dtype: DType, on_gpu: bool) -> bool {
    let digits = match dtype {
        DType::F16 => 10,
        DType::BF16 => 7,
        DType::F64 => 52,
        _ => 23,
    };
    let least = match dtype {
        DType::F16 => 2f64.powi(-24),
        DType::F64 => f64::MIN_POSITIVE,
        // A GPU may flush a subnormal result to zero.
        _ if on_gpu => f64::from(f32::MIN_POSITIVE),
        _ => 1e-45,
    };
    let allowed = units * (0.5f64.powi(digits) * b.abs()).max(least)
        + if on_gpu && dtype.is_float() { least } else { 0.0 };
    // At the limit of the type, a result within the tolerance may be beyond it.
    let is_at_end = units > 100.0 && b.abs() >= 0.999 * dtype.largest() && a == f64::INFINITY.copysign(b);
    a == b || (a.is_nan() && b.is_nan()) || is_at_end || (a - b).abs() <= allowed
}

#[test]
fn primitives_hold_at_the_ends_of_all_types_on_every_device() {
    let registry = Engine::new().registry;
    let mut failures = vec![];
    let devices: Vec<(Arc<dyn Device>, bool)> =
        [(cpu(), false)].into_iter().chain(gpus().iter().map(|gpu| (Arc::clone(gpu), true))).collect();
    let mut n_compared = 0;
    for dtype in DType::ALL {
        let (case, ops) = case(dtype);
        let expected = expected(&case, &registry);
        for (device, on_gpu) in &devices {
            let name = device.info().name;
            let found = match run(&case, &**device) {
                Ok(found) => found,
                Err(error) => {
                    failures.push(format!("{dtype} on {name}: {error}"));
                    continue;
                }
            };
            let (values, n) = (specials(dtype), specials(dtype).len());
            for (output, op) in ops.iter().enumerate() {
                let to = case.graph.ty(case.graph.outputs[output].1).dtype;
                let units = most_units(op, *on_gpu);
                let n_ways = if *on_gpu { expected.len() } else { 1 };
                n_compared += n * n;
                let fits = |i: usize| {
                    let ways = expected[..n_ways].iter();
                    ways.into_iter().any(|way| is_near(found[output][i], way[output][i], units, to, *on_gpu))
                };
                let wrong = (0..n * n).filter(|&i| !fits(i) && !is_beyond(op, dtype, values[i / n], *on_gpu));
                let wrong: Vec<usize> = wrong.collect();
                if let Some(&i) = wrong.first() {
                    failures.push(format!(
                        "`{}` of {dtype} {:#x}, {:#x} to {to} on {name} is {} instead of {} ({} more)",
                        op.name(),
                        values[i / n],
                        values[i % n],
                        found[output][i],
                        expected[0][output][i],
                        wrong.len() - 1
                    ));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    assert!(n_compared > 60_000 * devices.len(), "{n_compared} were compared");
}

/// The precision of `f64` sine and cosine beyond 10¹² is lost in languages that lack them (`codegen/ops/doubles.rs`).
fn is_beyond(op: &Scalar, dtype: DType, bits: u64, on_gpu: bool) -> bool {
    let is_wave = matches!(op, Scalar::Unary(Unary::Sin | Unary::Cos));
    is_wave && on_gpu && dtype == DType::F64 && f64::from_bits(bits).abs() > 1e12
}

/// Compilers may fold comparisons with numbers that are widened in the same kernel.
#[test]
fn numbers_that_are_widened_keep_their_sign() {
    let case = Case::new(|b| {
        let mut outputs = vec![];
        for dtype in [DType::I8, DType::I16, DType::I32] {
            let x = data(b, &format!("x{dtype}"), dtype, &[300]);
            let five = b.full_like(x, 5.0);
            let x = b.sub(x, five);
            let wide = b.cast(x, DType::I64);
            for (op, number) in [(Binary::Lt, 0.0), (Binary::Lt, 3.0), (Binary::Lt, -2.0), (Binary::Eq, -1.0)]
            {
                let number = b.full_like(wide, number);
                outputs.extend([b.binary(op, wide, number), b.binary(op, number, wide)]);
            }
            outputs.push(b.unary(Unary::Sign, wide));
        }
        outputs
    });
    case.check(0.0);
}
