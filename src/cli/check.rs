//! `engine check`.

use super::GraphArgs;
use super::open::open;
use super::output::{Failure, print};
use crate::Engine;

pub(super) fn check(mut engine: Engine, args: &GraphArgs) -> Result<(), Failure> {
    let pipeline = open(args, &mut engine.registry)?.pipeline;
    let (n_nodes, n_params, n_stages) =
        (pipeline.graph.nodes.len(), pipeline.params.len(), pipeline.stages.len());
    print(format!(
        "{}: {} is sound: {n_nodes} nodes, {n_params} parameters, {n_stages} stages",
        args.graph.display(),
        pipeline.name
    ));
    Ok(())
}
