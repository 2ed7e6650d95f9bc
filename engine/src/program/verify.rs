//! Checks of programs: places inside operands and workspaces, waits for earlier steps, and workspaces that share no memory
//! where streams run side by side.

use super::{Action, MatmulStep, Place, Program, Programs, Step};
use crate::fusion::Kernel;
use crate::plan::Plan;

/// What is wrong with the programs of a plan; nothing if a device can run them.
pub fn verify(plan: &Plan, programs: &Programs) -> Vec<String> {
    let mut problems = vec![];
    if programs.programs.len() != plan.launches.len() {
        return vec![format!("{} programs for {} launches", programs.programs.len(), plan.launches.len())];
    }
    for (at, (launch, program)) in plan.launches.iter().zip(&programs.programs).enumerate() {
        let kernel = &plan.kernels[launch.kernel];
        let of_program = program_problems(kernel, program);
        problems.extend(
            of_program.into_iter().map(|problem| format!("launch {at}, `{}`: {problem}", kernel.name)),
        );
        let range = &programs.workspaces.launches[at];
        if range.len() != program.workspace_bytes || range.end > programs.workspaces.bytes {
            problems.push(format!("launch {at}, `{}`: its workspace is {range:?}", kernel.name));
        }
    }
    problems.extend(shared_workspaces(plan, programs));
    problems
}

fn program_problems(kernel: &Kernel, program: &Program) -> Vec<String> {
    let mut problems = vec![];
    for (number, step) in program.steps.iter().enumerate() {
        if let Some(wait) = step.waits.iter().find(|&&wait| wait >= number) {
            problems.push(format!("step {number} waits for step {wait}, which is not before it"));
        }
        for place in places(step) {
            problems.extend(
                place_problem(kernel, program, place).map(|problem| format!("step {number}: {problem}")),
            );
        }
    }
    problems
}

fn place_problem(kernel: &Kernel, program: &Program, place: Place) -> Option<String> {
    match place {
        Place::Assertions => None,
        Place::Operand { operand, offset } => match kernel.operands.get(operand) {
            None => Some(format!("there is no operand {operand}")),
            Some(known) if offset > 0 && offset >= known.ty.bytes() => {
                Some(format!("byte {offset} lies outside of operand {operand}"))
            }
            Some(_) => None,
        },
        Place::Workspace { start, bytes } => (start + bytes > program.workspace_bytes).then(|| {
            format!(
                "bytes {start}..{} lie outside of a workspace of {}",
                start + bytes,
                program.workspace_bytes
            )
        }),
    }
}

fn places(step: &Step) -> Vec<Place> {
    match &step.action {
        Action::Kernel(kernel) => kernel.arguments.clone(),
        Action::Matmul(matmul) => {
            let MatmulStep { factors, result, added, bias, .. } = matmul;
            factors.iter().chain([result]).chain(added).chain(bias).copied().collect()
        }
        Action::Copy { from, to, .. } => vec![*from, *to],
        Action::Fill { to, .. } => vec![*to],
        Action::Loop { body, until, number, .. } => {
            body.iter().flat_map(places).chain(*until).chain([*number]).collect()
        }
        Action::Collective(super::Collective::AllReduce { at, .. }) => vec![*at],
    }
}

/// Launches of different streams may run at the same time, so their workspaces must be disjoint.
fn shared_workspaces(plan: &Plan, programs: &Programs) -> Vec<String> {
    let n_streams = plan.launches.iter().map(|launch| launch.stream + 1).max().unwrap_or(0);
    let mut spans = vec![None::<(usize, usize)>; n_streams];
    for (launch, range) in plan.launches.iter().zip(&programs.workspaces.launches) {
        if !range.is_empty() {
            let (start, end) = spans[launch.stream].unwrap_or((usize::MAX, 0));
            spans[launch.stream] = Some((start.min(range.start), end.max(range.end)));
        }
    }
    let library = programs.workspaces.library.iter().filter(|range| !range.is_empty());
    let mut all: Vec<(usize, usize)> =
        spans.into_iter().flatten().chain(library.map(|range| (range.start, range.end))).collect();
    all.sort_unstable();
    let overlaps = all.windows(2).filter(|pair| pair[0].1 > pair[1].0);
    overlaps
        .map(|pair| format!("workspaces {:?} and {:?} of two streams overlap", pair[0], pair[1]))
        .collect()
}
