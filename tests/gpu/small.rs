//! Small integers through every kind of kernel, compared with the interpreter.

use super::small_integers::{SMALL, graph, inputs};
use super::*;
use engine::core::oracle::Oracle;

#[test]
fn small_integers_follow_the_interpreter_on_gpus_fused_and_unfused() {
    let registry = Engine::new().registry;
    for dtype in SMALL {
        let graph = graph(dtype, &registry);
        let given = inputs(&graph);
        let expected = Oracle::rounded(&registry).run(&graph, &given, 0, 0).unwrap();
        let inputs = given.iter().map(|(name, x)| (name.clone(), tensor(&x.ty(), x.to_f64().into_iter())));
        let case = Case { graph, inputs: inputs.collect(), is_in_order: false, matmul: Precision::F32 };
        for (gpu, fuse) in gpus().iter().flat_map(|gpu| [(gpu, true), (gpu, false)]) {
            let found = case.run(&**gpu, fuse).unwrap();
            for ((name, _), found) in case.graph.outputs.iter().zip(found) {
                let gpu = gpu.info().name;
                assert_eq!(
                    found,
                    expected.outputs[name].to_f64(),
                    "{name} of {dtype} on {gpu}, fuse: {fuse}"
                );
            }
        }
    }
}
