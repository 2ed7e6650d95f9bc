//! Programs of loops: the programs of a trip, with its values in the workspace of the loop.

use super::kernels::kernels;
use super::site::Site;
use super::{Action, NoProgram, Place, Program, Refusal, Step, Tuner};
use crate::codegen::{CodegenError, KernelSpec};
use crate::fusion::{
    Access, Class, Domain, FusedBody, FusedInst, FusedOp, Kernel, KernelBody, LoopBody, Operand, Use,
};
use crate::ir::{Binary, DType, Literal, Scalar, Type};
use crate::plan::{BufferId, LoopPlan, TripPlace};

/// The initial values are copied to where the results will be. Then come the trips.
pub fn program<T: Tuner>(site: &Site, body: &LoopBody, tuner: &T) -> Result<Program, Refusal<T::Error>> {
    let trip = site.plan.loop_of(body);
    let found = trip.step.programs(&site.device, tuner);
    let programs = found.map_err(|NoProgram { refusal, .. }| refusal)?;
    let values = trip.workspace_bytes();
    let (mut steps, mut chosen) = (vec![], vec![]);
    for (number, program) in programs.programs.into_iter().enumerate() {
        let launch = &trip.step.launches[number];
        let name = &trip.step.kernels[launch.kernel].name;
        chosen.extend(program.chosen.map(|chosen| (steps.len(), name.to_string(), chosen)));
        let start = values + programs.workspaces.launches[number].start;
        let moved = |place: Place| match place {
            Place::Operand { operand, offset } => within(trip, body, launch.buffers[operand], offset),
            Place::Workspace { start: at, bytes } => Place::Workspace { start: start + at, bytes },
            Place::Assertions => Place::Assertions,
        };
        steps.extend(program.steps.into_iter().map(|step| on_one_branch(step, &moved)));
    }
    let until = trip.ends_place(body).map(|place| place_of(place, DType::Bool.size(), 0));
    let number = place_of(trip.number_place(body), DType::I32.size(), 0);
    if !site.device.counts_trips {
        steps.extend(next_number(site, number)?);
    }
    let mut program = starts(site, trip, body)?;
    program.workspace_bytes = program.workspace_bytes.max(values + programs.workspaces.bytes);
    program.push(Action::Loop { body: steps, chosen, trips: body.trips, until, number });
    Ok(program)
}

/// Part of a buffer of a trip.
fn within(trip: &LoopPlan, body: &LoopBody, buffer: BufferId, offset: usize) -> Place {
    place_of(trip.place(body, buffer), trip.step.buffers[buffer].ty.bytes(), offset)
}

fn place_of(place: TripPlace, bytes: usize, offset: usize) -> Place {
    match place {
        TripPlace::Operand(operand) => Place::Operand { operand, offset },
        TripPlace::Workspace(start) => Place::Workspace { start: start + offset, bytes: bytes - offset },
    }
}

/// A step with its places moved. Steps of a trip run one after the other.
fn on_one_branch(step: Step, moved: &dyn Fn(Place) -> Place) -> Step {
    Step { action: action_at(step.action, moved), branch: 0, waits: vec![] }
}

/// An action with its places moved.
pub fn action_at(action: Action, moved: &dyn Fn(Place) -> Place) -> Action {
    match action {
        Action::Kernel(mut kernel) => {
            kernel.arguments.iter_mut().for_each(|place| *place = moved(*place));
            Action::Kernel(kernel)
        }
        Action::Matmul(mut matmul) => {
            matmul.factors = matmul.factors.map(moved);
            matmul.result = moved(matmul.result);
            matmul.added = matmul.added.map(moved);
            matmul.bias = matmul.bias.map(moved);
            Action::Matmul(matmul)
        }
        Action::Copy { from, to, bytes } => Action::Copy { from: moved(from), to: moved(to), bytes },
        Action::Fill { to, bytes, byte } => Action::Fill { to: moved(to), bytes, byte },
        Action::Loop { body, chosen, trips, until, number } => {
            let body = body.into_iter().map(|step| on_one_branch(step, moved)).collect();
            Action::Loop { body, chosen, trips, until: until.map(moved), number: moved(number) }
        }
        Action::Collective(collective) => Action::Collective(collective),
    }
}

/// A kernel that counts a trip.
fn next_number(site: &Site, number: Place) -> Result<Vec<Step>, CodegenError> {
    let ty = Type::scalar(DType::I32);
    let load = FusedOp::Load { operand: 0, access: whole(&ty), index: None };
    let next = FusedOp::Scalar(Scalar::Binary(Binary::Add), vec![0, 1]);
    let mut counted = Program::default();
    store(site, &mut counted, (vec![load, FusedOp::Const(Literal::Int(1)), next], &ty), &[number, number])?;
    Ok(counted.steps)
}

/// Copies of the initial values, and the number 0 of the first trip unless the device counts.
fn starts(site: &Site, trip: &LoopPlan, body: &LoopBody) -> Result<Program, CodegenError> {
    let mut program = Program::default();
    let is_there = |number: usize| site.buffers[number] == site.buffers[body.carried(number)];
    for number in (0..body.n_carried).filter(|&number| !is_there(number)) {
        let ty = &site.kernel.operands[number].ty;
        let load = FusedOp::Load { operand: 0, access: whole(ty), index: None };
        let places = [Place::operand(number), Place::operand(body.carried(number))];
        store(site, &mut program, (vec![load], ty), &places)?;
    }
    if !site.device.counts_trips {
        let number = Type::scalar(DType::I32);
        let place = place_of(trip.number_place(body), number.bytes(), 0);
        store(site, &mut program, (vec![FusedOp::Const(Literal::Int(0))], &number), &[place])?;
    }
    Ok(program)
}

fn whole(ty: &Type) -> Access {
    Access::strided(&[ty.numel()], &[1])
}

/// Appends a kernel that stores a value of a type to the last of some places, which are its operands. The value is that of
/// the last of some instructions.
fn store(
    site: &Site,
    program: &mut Program,
    (value, ty): (Vec<FusedOp>, &Type),
    places: &[Place],
) -> Result<(), CodegenError> {
    if ty.numel() == 0 {
        return Ok(());
    }
    let target = places.len() - 1;
    let store = FusedOp::Store { operand: target, access: whole(ty), value: value.len() - 1, index: None };
    let inst = |op| FusedInst { op, dtype: ty.dtype, class: Class::Element };
    let insts = value.into_iter().chain([store]).map(inst).collect();
    let usage = |at: usize| if at == target { Use::Write } else { Use::Read };
    let value = site.kernel.operands[0].value;
    let operands = (0..places.len()).map(|at| Operand { value, ty: ty.clone(), usage: usage(at) }).collect();
    let body = FusedBody { domain: Domain { outer: 1, row: ty.numel(), inner: 1 }, insts };
    let kernel = Kernel { body: KernelBody::Map(body), operands, ..site.kernel.clone() };
    let mut stored = Program::default();
    kernels(site, &mut stored, KernelSpec::launches(&kernel, site.device)?, None);
    let moved = |place: Place| match place {
        Place::Operand { operand, .. } => places[operand],
        place => place,
    };
    program.steps.extend(stored.steps.into_iter().map(|step| on_one_branch(step, &moved)));
    Ok(())
}
