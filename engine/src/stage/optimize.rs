//! From a loss to the next parameters.

use super::loss_scale::Factor;
use super::own::Names;
use super::rates::rate;
use super::recompute::recompute;
use super::slots::Slots;
use crate::diag::Code;
use crate::grad::{Differentiated, GradIssue, differentiate, named};
use crate::ir::{
    Attr, Attrs, Builder, DType, E, Graph, InputKind, Level, Literal, NodeOp, StateLink, Symbol, Type, Unary,
    Value, View,
};
use crate::op::{Registry, Role};
use crate::pass::sound;
use crate::pipeline::{GroupRule, OptimizerDecl, ParamDecl, StageIssue, TrainStage};
use std::collections::{HashMap, HashSet};

/// The steps that an optimizer takes in a stage.
pub struct Steps<'s> {
    /// The stage.
    pub stage: &'s TrainStage,
    /// Its optimizer.
    pub optimizer: &'s OptimizerDecl,
    /// The parameters that it changes.
    pub trained: &'s [Symbol],
    /// The names of the optimizer's states.
    pub slots: Slots,
    /// The states beside them that are updated once in a step.
    pub once: &'s [Symbol],
    /// Layers that the backward pass recomputes: their paths and their nodes.
    pub recomputed: &'s [(Symbol, HashSet<Symbol>)],
    /// Number of steps, which schedules refer to.
    pub n_steps: usize,
    /// Whether the norm of the gradients is an output.
    pub norm: NormShown,
}

/// When the norm of the gradients is an output of a training step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NormShown {
    /// Never.
    #[default]
    Never,
    /// If the stage computes it anyway, for `clip_norm`. This costs the store of a scalar.
    IfClipped,
    /// In every stage. This costs a read of all gradients.
    Always,
}

/// The output of a training step that holds the 2-norm of all gradients together, before clipping: `f32[]`.
pub const GRAD_NORM: &str = "grad_norm";

/// The graph with gradients of its first output and a step of the optimizer.
pub fn optimize(
    graph: &Graph,
    steps: &Steps,
    more: &[(Symbol, Symbol)],
    registry: &Registry,
) -> Result<Graph, StageIssue> {
    let Gradients { mut b, params, grads, factor } = gradients(graph, steps, more, registry)?;
    step_params(&mut b, steps, (&params, grads), factor)?;
    Ok(sound("gradient", Level::Bound, b.graph))
}

/// The graph with gradients of its first output, a share of which is added to a state `PARAM.grad` beside each parameter.
/// Half-precision gradients are added up in single precision.
pub fn accumulate(
    graph: &Graph,
    steps: &Steps,
    more: &[(Symbol, Symbol)],
    registry: &Registry,
) -> Result<Graph, StageIssue> {
    let Gradients { mut b, params, grads, .. } = gradients(graph, steps, more, registry)?;
    let (n_batches, mut names) = (steps.stage.accumulate, Names::default());
    for (param, grad) in params.into_iter().zip(grads) {
        let total = total_of(&mut b, &mut names, param)?;
        let dtype = b.dtype(total);
        let grad = b.cast(grad, dtype);
        let share = b.scale(grad, 1.0 / n_batches as f64);
        let next = b.add(total, share);
        b.graph.state.push(StateLink { input: total.node, next });
    }
    Ok(b.graph)
}

/// A step of the optimizer by the averaged gradients, and zeros in their place. `graph` updates states beside the
/// parameters, whose types are those of the declarations.
pub fn apply(
    graph: Graph,
    steps: &Steps,
    declared: &[ParamDecl],
    registry: &Registry,
) -> Result<Graph, StageIssue> {
    let mut b = Builder::new(graph, registry);
    let (mut params, mut grads, mut totals, mut names) = (vec![], vec![], vec![], Names::default());
    for decl in declared.iter().filter(|decl| steps.trained.contains(&decl.name)) {
        let known = names.find(&b.graph, &decl.name);
        let param = known.unwrap_or_else(|| b.input(&decl.name, InputKind::Param, decl.ty.clone()));
        let total = total_of(&mut b, &mut names, param)?;
        let dtype = b.dtype(param);
        grads.push(b.cast(total, dtype));
        params.push(param);
        totals.push(total);
    }
    let factor = steps.stage.precision.loss_scale();
    let factor = factor.map(|setting| Factor::read(&mut b, setting)).transpose()?;
    step_params(&mut b, steps, (&params, grads), factor)?;
    for total in totals {
        let next = b.full_like(total, 0.0);
        b.graph.state.push(StateLink { input: total.node, next });
    }
    Ok(b.graph)
}

/// The state in which a parameter's gradients are averaged.
fn total_of(b: &mut Builder, names: &mut Names, param: Value) -> Result<Value, StageIssue> {
    let name = format!("{}.grad", b.graph.name_of(param));
    let dtype = b.dtype(param).accumulator();
    let ty = b.ty(param).with_dtype(dtype);
    b.set_scope(&name, None);
    names.own_input(b, &name, InputKind::State, ty)
}

/// A graph with the gradients of its loss by parameters, and the factor of a scaled loss.
struct Gradients<'r> {
    b: Builder<'r>,
    /// The parameters that a gradient reaches.
    params: Vec<Value>,
    /// Not scaled.
    grads: Vec<Value>,
    factor: Option<Factor>,
}

/// The graph with the gradients of its first output by parameters, and as outputs (name, node) those by more nodes.
fn gradients<'r>(
    graph: &Graph,
    steps: &Steps,
    more: &[(Symbol, Symbol)],
    registry: &'r Registry,
) -> Result<Gradients<'r>, StageIssue> {
    let plain = graph.outputs[0].1;
    check_loss(graph, plain)?;
    let mut b = Builder::new(graph.clone(), registry);
    let setting = steps.stage.precision.loss_scale();
    let factor = setting.map(|setting| Factor::read(&mut b, setting)).transpose()?;
    let loss = factor.as_ref().map_or(plain, |factor| factor.scaled(&mut b, plain));
    let graph = &b.graph;
    let is_trained = |(id, kind): &(usize, InputKind)| {
        *kind == InputKind::Param && steps.trained.contains(graph.nodes[*id].name())
    };
    let params: Vec<Value> = graph.inputs().filter(is_trained).map(|(id, _)| Value::of(id)).collect();
    let is_more = |value: &Value| graph.ty(*value).dtype.is_float() && !params.contains(value);
    let found = more.iter().filter_map(|(name, node)| Some((name, graph.find(node).filter(is_more)?)));
    let (names, by): (Vec<&Symbol>, Vec<Value>) = found.unzip();
    let wrt: Vec<Value> = params.iter().copied().chain(by).collect();
    let differentiated = differentiate(graph, registry, loss, &wrt).map_err(no_gradient)?;
    let (of_params, of_more) = differentiated.reached.split_at(params.len());
    if !of_params.contains(&true) {
        let message = format!("no parameter has a gradient of the loss `{}`", graph.name_of(plain));
        let help = match steps.optimizer.groups.iter().any(|group| group.rule == GroupRule::Frozen) {
            true => "leave a parameter of the loss out of the frozen groups",
            false => "a loss depends on trained parameters by floats: indices and truth values have no slope",
        };
        let span = graph.nodes[plain.node].span;
        return Err(StageIssue { code: Code::E0115, ..StageIssue::new(message, span).help(help) });
    }
    let (of_params, of_more) = (of_params.to_vec(), of_more.to_vec());
    let recomputed = recompute(differentiated, graph, steps.recomputed, registry);
    let Differentiated { graph, map, grads, .. } = recomputed;
    let wrt: Vec<Value> = wrt.iter().map(|p| map[p.node][p.port]).collect();
    let mut b = Builder::new(graph, registry);
    let factor = factor.map(|factor| factor.moved(&map));
    let grads = factor.iter().fold(grads, |grads, factor| factor.unscaled(&mut b, grads));
    let mut grads = name_gradients(&mut b, &wrt, grads, map.concat());
    let more = names.into_iter().zip(grads.split_off(params.len())).zip(of_more);
    let reached = more.filter(|(_, is_reached)| *is_reached);
    b.graph.outputs.extend(reached.map(|((name, grad), _)| (name.clone(), grad)));
    // A parameter behind `detach` is a constant: an optimizer would decay it.
    let stepped = wrt.into_iter().zip(grads).zip(of_params).filter(|(_, is_reached)| *is_reached);
    let (params, grads) = stepped.map(|(pair, _)| pair).unzip();
    Ok(Gradients { b, params, grads, factor })
}

/// Those parameters that a gradient of the first output of a graph reaches.
pub fn reached(graph: &Graph, params: Vec<Symbol>, registry: &Registry) -> Result<Vec<Symbol>, StageIssue> {
    let found: Vec<(Symbol, Value)> =
        params.into_iter().filter_map(|name| graph.find(&name).map(|value| (name, value))).collect();
    let wrt: Vec<Value> = found.iter().map(|(_, value)| *value).collect();
    let reached = differentiate(graph, registry, graph.outputs[0].1, &wrt).map_err(no_gradient)?.reached;
    Ok(found.into_iter().zip(reached).filter(|(_, is_reached)| *is_reached).map(|(pair, _)| pair.0).collect())
}

/// The graph with gradients of a scalar by some of its values, which become outputs of these names.
pub fn differentiated(
    graph: &Graph,
    loss: Value,
    (names, by): (Vec<Symbol>, &[Value]),
    registry: &Registry,
) -> Result<Graph, StageIssue> {
    check_loss(graph, loss)?;
    let name_of = |value: Value| graph.name_of(value).clone();
    if let Some(&other) = by.iter().find(|value| !graph.ty(**value).dtype.is_float()) {
        let message = format!("`{}` is {}, only floats have gradients", name_of(other), graph.ty(other));
        return Err(StageIssue {
            code: Code::E0115,
            ..StageIssue::new(message, graph.nodes[other.node].span)
        });
    }
    let found = differentiate(graph, registry, loss, by).map_err(no_gradient)?;
    if let Some(place) = found.reached.iter().position(|is_reached| !is_reached) {
        let message = format!("`{}` has no gradient of the loss `{}`", name_of(by[place]), name_of(loss));
        let help = "a loss depends on a node by floats: indices and truth values have no slope";
        let span = graph.nodes[by[place].node].span;
        return Err(StageIssue { code: Code::E0115, ..StageIssue::new(message, span).help(help) });
    }
    let Differentiated { graph, map, grads, .. } = found;
    let by: Vec<Value> = by.iter().map(|value| map[value.node][value.port]).collect();
    let mut builder = Builder::new(graph, registry);
    let grads = name_gradients(&mut builder, &by, grads, map.concat());
    builder.graph.outputs.extend(names.into_iter().zip(grads));
    Ok(builder.graph)
}

fn no_gradient(issue: GradIssue) -> StageIssue {
    let message = format!("the loss has no gradient through `{}`: {}", issue.node, issue.why);
    let help = "use a node that has one in its place, or leave the parameter out of the loss";
    StageIssue { code: Code::E0115, ..StageIssue::new(message, issue.span).help(help) }
}

/// The gradients under the names `d.PARAM`, by which users ask for them. Values that are known by another name already,
/// those of the forward graph among them, keep it.
fn name_gradients(b: &mut Builder, params: &[Value], grads: Vec<Value>, forward: Vec<Value>) -> Vec<Value> {
    let (mut known, mut names): (HashSet<Value>, _) = (forward.into_iter().collect(), Names::default());
    let name_of = |(&param, grad): (&Value, Value)| {
        let name: Symbol = format!("d.{}", b.graph.name_of(param)).into();
        if names.find(&b.graph, &name).is_some() {
            return grad;
        }
        if known.insert(grad) {
            let grad = named(b, grad, &name);
            names.add(name, grad);
            return grad;
        }
        let ty = b.ty(grad).clone();
        b.push_named(name, NodeOp::View(View::Reshape), vec![grad], ty)
    };
    params.iter().zip(grads).map(name_of).collect()
}

fn step_params(
    builder: &mut Builder,
    steps: &Steps,
    (params, grads): (&[Value], Vec<Value>),
    factor: Option<Factor>,
) -> Result<(), StageIssue> {
    let guard = factor.map(|factor| factor.step(builder, &grads)).transpose()?;
    if let Some(guard) = &guard {
        builder.step = Some(guard.taken);
    }
    let (optimizer, first) = (steps.optimizer, builder.graph.state.len());
    let is_needed = steps.norm == NormShown::Always || steps.stage.clip_norm.is_some();
    let norm = is_needed.then(|| norm(builder, &grads)).flatten();
    let is_free = builder.graph.outputs.iter().all(|(name, _)| &**name != GRAD_NORM);
    if let Some(norm) = norm.filter(|_| steps.norm != NormShown::Never && is_free) {
        builder.graph.outputs.push((GRAD_NORM.into(), norm));
    }
    let grads = match (steps.stage.clip_value, steps.stage.clip_norm.zip(norm)) {
        (Some(most), _) => clip_values(builder, &grads, most),
        (None, Some((most, norm))) => clip(builder, &grads, most, norm),
        (None, None) => grads,
    };
    let mut rates: HashMap<Symbol, Value> = HashMap::new();
    for (name, schedule) in optimizer.rates() {
        let rate = rate(builder, (&name, schedule), steps.n_steps, steps.stage.mode)?;
        rates.insert(name, rate);
    }
    let mut names = Names::default();
    for (&param, grad) in params.iter().zip(grads) {
        let settings = optimizer.settings_of(builder.graph.name_of(param));
        let attrs = attrs_for(settings.attrs, settings.decay_bias, builder.ty(param));
        let operands = [param, grad, rates[&settings.lr]];
        update(builder, (settings.op, attrs), operands, (&steps.slots, guard.is_some()), &mut names)?;
    }
    if let Some(guard) = guard {
        guard.hold(builder, first, steps.once);
    }
    Ok(())
}

fn check_loss(graph: &Graph, loss: Value) -> Result<(), StageIssue> {
    let ty = graph.ty(loss);
    if ty.rank() == 0 && ty.dtype.is_float() {
        return Ok(());
    }
    let message = format!("the loss `{}` must be a float scalar, it is {ty}", graph.name_of(loss));
    let issue = StageIssue::new(message, graph.nodes[loss.node].span);
    Err(StageIssue { code: Code::E0205, ..issue.help("reduce it, for example by `mean(…)`") })
}

/// The 2-norm of all gradients together. None if there are none.
fn norm(b: &mut Builder, grads: &[Value]) -> Option<Value> {
    b.set_scope(GRAD_NORM, None);
    let mut squares: Option<Value> = None;
    for &grad in grads {
        let wide = b.cast(grad, DType::F32);
        let square = b.mul(wide, wide);
        let axes: Vec<usize> = (0..b.ty(square).rank()).collect();
        let sum = b.sum(square, &axes);
        squares = Some(squares.map_or(sum, |known| b.add(known, sum)));
    }
    squares.map(|squares| b.unary(Unary::Sqrt, squares))
}

/// All gradients times `min(1, most / (norm + 1e-6))`, where `norm` is that of all of them together.
fn clip(b: &mut Builder, grads: &[Value], most: f64, norm: Value) -> Vec<Value> {
    b.set_scope(GRAD_NORM, None);
    let factor = b.map(&[norm], |n| E::from(1.0).min(E::from(most) / (n[0] + 1e-6)));
    grads
        .iter()
        .map(|&grad| {
            let dtype = b.dtype(grad);
            let factor = b.cast(factor, dtype);
            b.mul(grad, factor)
        })
        .collect()
}

/// All elements of gradients clamped to `-most..most`. NaN stays NaN.
fn clip_values(b: &mut Builder, grads: &[Value], most: f64) -> Vec<Value> {
    let clamp = |&grad: &Value| {
        let name = format!("{}.clipped", b.graph.name_of(grad));
        b.set_scope(&name, None);
        b.map(&[grad], |g| g[0].max(-most).min(most))
    };
    grads.iter().map(clamp).collect()
}

/// A step of an optimizer op on a parameter, and on the op's states beside it. A guarded step is written out, since it
/// counts steps by a state, and the op would count all.
fn update(
    b: &mut Builder,
    (op, attrs): (&str, Attrs),
    [param, grad, lr]: [Value; 3],
    (usual, is_guarded): (&Slots, bool),
    names: &mut Names,
) -> Result<(), StageIssue> {
    let name = b.graph.name_of(param).clone();
    let ty = b.ty(param).clone();
    let form = b.registry().expect_op(op).map_err(|issue| StageIssue {
        code: Code::E0207,
        help: issue.help,
        ..StageIssue::new(issue.message, None)
    })?;
    let Role::Optimizer { slots } = &form.role else {
        return Err(StageIssue::new(format!("`{op}` is not an optimizer"), None));
    };
    let slot = |slot: &String| {
        let name = usual.name(&format!("{name}.{slot}"));
        names.own_input(b, &name, InputKind::State, ty.clone())
    };
    let slots: Vec<Value> = slots.iter().map(slot).collect::<Result<_, _>>()?;
    let operands: Vec<Value> = [param, grad, lr].into_iter().chain(slots.iter().copied()).collect();
    b.set_scope(&name, None);
    let next = match is_guarded {
        true => b.expanded(op, &operands, attrs),
        false => b.call(op, &operands, attrs),
    };
    let next = next.map_err(|issue| {
        let found = StageIssue::new(format!("`{op}` of `{name}`: {}", issue.message), None);
        StageIssue { help: issue.help, ..found }
    })?;
    for (state, next) in [param].into_iter().chain(slots).zip(next) {
        let next_name: Symbol = format!("{}.next", b.graph.name_of(state)).into();
        if names.find(&b.graph, &next_name).is_none() {
            names.add(next_name.clone(), next);
            b.graph.nodes[next.node].outputs[next.port].name = next_name;
        }
        b.graph.state.push(StateLink { input: state.node, next });
    }
    Ok(())
}

/// Biases and other vectors may be exempt from weight decay.
fn attrs_for(attrs: &Attrs, decay_bias: bool, ty: &Type) -> Attrs {
    let exempt = !decay_bias && ty.rank() <= 1 && attrs.0.contains_key("weight_decay");
    match exempt {
        true => attrs.clone().with("weight_decay", Attr::Lit(Literal::Float(0.0))),
        false => attrs.clone(),
    }
}
