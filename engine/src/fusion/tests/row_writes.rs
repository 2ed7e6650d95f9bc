//! Row writes: rows of states that other kernels write, and those that stay scatters.

use super::*;
use crate::device_model::DeviceModel;
use crate::plan::{self, plan};

/// A trip that writes one row of a stack.
const TRIP: &str = "graph trip {
    state stack: f32[8, 300, 16]
    input x: f32[8, 32]
    input w: f32[32, 16]
    input n: i32[]
    one: i32[] = .const(1)
    i: i32[] = .add(n, one)
    y: f32[8, 16] = .matmul(x, w, contracted=[[1, 0]])
    next: f32[8, 300, 16] = .scatter_set(stack, i, y, axis=1)
    state stack = next
}";

fn trip(edits: &[(&str, &str)]) -> Graph {
    let edited = edits.iter().fold(TRIP.to_string(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    });
    parse(&edited, &Registry::new()).unwrap_or_else(|error| panic!("{edited}: {error:?}"))
}

#[test]
fn a_matmul_writes_its_result_into_a_state() {
    let graph = trip(&[]);
    let kernels = fuse(&graph, true).kernels;
    expect![[r#"
        matmul next  # gemm scatter
          reads 3076 B, writes 512 B, 8192 flop
          read @0 x: f32[8, 32]
          read @1 w: f32[32, 16]
          read @2 n: i32[]
          write @3 next: f32[8, 300, 16]
          batch 1 m 8 n 16 k 32 f32
          lhs @0 + 0 strides [0, 32, 1]
          rhs @1 + 0 strides [0, 16, 1]
          points [8, 16, 1]
          %0: f32 element = accumulator
          %1: i32 uniform = @2[]
          %2: i32 uniform = 1
          %3: i32 uniform = add(%1, %2)
          @3[8:4800, 16:1] + %3*16 = %0
    "#]]
    .assert_eq(&kernels[0].describe(&graph));
    let plan = plan(&graph, kernels, 1);
    assert_eq!((plan.launches.len(), plan::verify(&graph, &plan)), (1, vec![]));
}

#[test]
fn a_row_is_also_stored_for_its_other_users() {
    let graph = trip(&[("state stack = next", "output y = y\n state stack = next")]);
    assert_eq!(signature(&graph), "matmul: x w n -> y next\n");
}

#[test]
fn a_kernel_that_reads_a_row_writes_it_too() {
    let graph = trip(&[
        ("state stack: ", "state h: f32[8, 16]\n state stack: "),
        (".matmul(x, w, contracted=[[1, 0]])", ".slice(x, start=[0, 0], step=[1, 2])"),
        ("scatter_set(stack, i, y", "scatter_set(stack, i, h"),
        (
            "state stack = next",
            "z: f32[8, 16] = .mul(h, y)\n t: f32[8, 16] = .tanh(z)\n state stack = next\n state h = t",
        ),
    ]);
    assert_eq!(signature(&graph), "map: h x n -> t next\n");
    let plan = plan(&graph, fuse(&graph, true).kernels, 1);
    assert_eq!((plan.launches.len(), plan::verify(&graph, &plan)), (1, vec![]));
}

/// A step of decoding: a token's row of a table, whose index is checked, goes into a state. Another kernel reads the row again.
const CHECKED: &str = "graph step {
    state stack: f32[300, 16]
    input table: f32[50, 16]
    input token: i32[]
    input n: i32[]
    input w: f32[32, 16]
    checked: i32[] = .check(token, bound=50)
    x: f32[16] = .gather(table, checked, axis=0)
    e: f32[16] = .exp(x)
    column: f32[16, 1] = .reshape(e)
    z: f32[32, 1] = .matmul(w, column, contracted=[[1, 0]])
    row: f32[32] = .reshape(z)
    part: f32[16] = .slice(row, start=[0], step=[2])
    y: f32[16] = .tanh(part)
    next: f32[300, 16] = .scatter_set(stack, n, y, axis=0)
    second: f32[16, 1] = .reshape(y)
    z2: f32[32, 1] = .matmul(w, second, contracted=[[1, 0]])
    row2: f32[32] = .reshape(z2)
    part2: f32[16] = .slice(row2, start=[0], step=[2])
    again: f32[16] = .add(x, part2)
    state stack = next
    output again = again
}";

#[test]
fn a_row_is_written_behind_the_only_check() {
    let graph = parse(CHECKED, &Registry::new()).unwrap();
    let kernels = fuse(&graph, true).kernels;
    let checks: Vec<bool> = kernels.iter().map(Kernel::has_checks).collect();
    assert_eq!((checkers(&kernels), &checks[..]), (vec![0], &[true, false, false, false, true][..]));
    assert!(!signature(&graph).contains("scatter: "), "{}", signature(&graph));
    let plan = plan(&graph, kernels, 2);
    assert_eq!(plan::verify(&graph, &plan), Vec::<String>::new());
    // The state is no copy.
    assert!(
        plan.launches.iter().all(|launch| !plan.kernels[launch.kernel].name.ends_with(".next")),
        "{plan}"
    );
}

/// A check that needs the new state would come too late.
#[test]
fn rows_stay_scatters_before_a_check() {
    let late = CHECKED.replace("output again = again", "output late = late").replace(
        "state stack = next",
        "s: f32[16] = .sum(next, axes=[0])\n l: f32[] = .sum(s, axes=[0])\n \
                  c: i32[] = .cast(l, dtype=i32)\n ci: i32[] = .check(c, bound=50)\n \
                  late: f32[16] = .gather(table, ci, axis=0)\n state stack = next",
    );
    let graph = parse(&late, &Registry::new()).unwrap_or_else(|error| panic!("{error:?}"));
    assert!(signature(&graph).contains("scatter: "), "{}", signature(&graph));
}

/// A plan writes a row in place only where nothing has to come before, and a row has one writer.
#[test]
fn other_scatters_stay() {
    let cases: [&[(&str, &str)]; 6] = [
        &[(
            "state stack = next",
            "s: f32[8, 16] = .sum(stack, axes=[1])\n output s = s\n state stack = next",
        )],
        &[("state stack = next", "output next = next"), ("state stack:", "input stack:")],
        &[("i: i32[] = .add(n, one)", "m: i32[] = .add(n, one)\n i: i32[] = .check(m, bound=300)")],
        &[("scatter_set", "scatter_add")],
        &[
            ("input n: i32[]", "input i: i32[2]"),
            (
                "i: i32[] = .add(n, one)",
                "z: f32[8, 1, 16] = .reshape(y)\n u: f32[8, 2, 16] = .broadcast(z, axes=[0, 1, 2])",
            ),
            ("y: f32[8, 16] = .matmul(x, w, contracted=[[1, 0]])", ""),
            ("state stack: f32", "input y: f32[8, 16]\n state stack: f32"),
            ("scatter_set(stack, i, y", "scatter_set(stack, i, u"),
        ],
        &[
            ("state stack: ", "state other: f32[8, 300, 16]\n state stack: "),
            ("state stack = next", "state stack = next\n state other = next"),
        ],
    ];
    for edits in cases {
        let found = signature(&trip(edits));
        assert!(found.contains("scatter: "), "{edits:?}: {found}");
    }
}

/// Threads would share the words at the ends of a row.
#[test]
fn packed_rows_stay_scatters() {
    let graph = trip(&[("f32", "bf16")]);
    let on = |device| signature_with(&graph, &Settings { device, ..Settings::default() });
    assert!(on(DeviceModel::WEBGPU).contains("scatter: "));
    assert!(!on(DeviceModel::H200).contains("scatter: "));
}
