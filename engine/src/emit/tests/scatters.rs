//! Sums by indices: four neighbours at once, and all indices looked at before state is written.

use super::*;

/// `base; out[idx] += 2·updates`, with the indices checked inside.
fn checked_sum(n_rows: usize, after: usize) -> Kernel {
    let registry = Registry::new();
    let mut b = Builder::new(Graph::new("sum"), &registry);
    let base = b.input("base", InputKind::Data, TensorType::new(DType::F32, &[10, after]));
    let idx = b.input("idx", InputKind::Data, TensorType::new(DType::I32, &[n_rows]));
    let given = b.input("updates", InputKind::Data, TensorType::new(DType::F32, &[n_rows, after]));
    let idx = b.check_index(idx, 10);
    let updates = b.scale(given, 2.0);
    let out = b.scatter(base, idx, updates, 0, 0, Combine::Add);
    b.graph.outputs = vec![("out".into(), out)];
    let mut kernels = fuse_with(&b.graph, &Settings::default()).kernels;
    assert_eq!(kernels.len(), 1);
    kernels.remove(0)
}

#[test]
fn four_neighbours_are_added_at_once_where_they_lie_side_by_side() {
    let adds = |after: usize, target: Target| {
        let updates = FusedKernel::launches(&checked_sum(6, after), target).unwrap().remove(1);
        let text = updates.cuda_source().unwrap().text;
        [text.contains("add_four("), text.contains("atomicAdd(")]
    };
    assert_eq!(adds(8, Target::CUDA), [true, false]);
    assert_eq!(adds(6, Target::CUDA), [false, true]);
    assert_eq!(adds(8, Target { adds_four: false, ..Target::CUDA }), [false, true]);
    for after in [3, 4, 8, 300] {
        check_scatter([1, 1, 10, 6, after], Combine::Add, false);
        check_scatter([2, 3, 4, 5, after], Combine::Add, false);
    }
}

#[test]
fn a_sum_into_state_looks_at_all_indices_before_it_writes() {
    let (n_rows, after) = (600, 4);
    let kernel = checked_sum(n_rows, after);
    let updates = FusedKernel::launches(&kernel, Target::CUDA).unwrap().remove(1);
    assert!(updates.looks_first());
    let [guarded, checks] = [updates.clone().guarded(), updates.checks_only().unwrap()];
    let run = |fused: &FusedKernel, bad: Option<usize>, raised: u8| {
        let mut idx: Vec<i32> = (0..n_rows as i32).map(|i| i % 10).collect();
        if let Some(bad) = bad {
            idx[bad] = 10;
        }
        let idx: Vec<u8> = idx.iter().flat_map(|i| i.to_le_bytes()).collect();
        let mut flag = vec![0; 4 * FLAG_WORDS];
        flag[0] = raised;
        // The operands in the order of the launch's arguments; flag and guard are the same words on a device.
        let arguments = fused.arguments();
        let buffers = arguments.iter().map(|argument| match *argument {
            Argument::Flag | Argument::Guard => flag.clone(),
            Argument::Operand(operand) => match kernel.operands[operand].ty.dtype {
                DType::I32 => idx.clone(),
                _ if kernel.operands[operand].usage == Use::Write => vec![0; 4 * 10 * after],
                _ => bytes(&vec![1.0; n_rows * after]),
            },
            other => panic!("{other:?}"),
        });
        let buffers: Vec<Vec<u8>> = buffers.collect();
        let written = arguments.iter().position(|argument| {
            matches!(argument, Argument::Operand(operand) if kernel.operands[*operand].usage == Use::Write)
        });
        let flag = arguments.iter().position(|&argument| argument == Argument::Flag).unwrap();
        let after = on_host::run_arguments(fused, buffers, 0)?;
        Some((written.map(|written| f32s(&after[written])), i32s(&after[flag])))
    };
    let Some((sums, flag)) = run(&guarded, None, 0) else { return };
    assert_eq!((sums.unwrap(), flag[0]), (vec![120.0; 40], 0));
    let (sums, _) = run(&guarded, None, 1).unwrap();
    assert_eq!(sums.unwrap(), vec![0.0; 40], "an error from before is heeded");
    let (_, flag) = run(&guarded, Some(599), 0).unwrap();
    assert_eq!([flag[1], flag[3]], [10, 599], "value and position");
    let (sums, flag) = run(&checks, Some(300), 0).unwrap();
    assert_eq!([flag[1], flag[3]], [10, 300]);
    assert!(sums.is_none_or(|sums| sums == vec![0.0; 40]), "only the flag is written");
}
