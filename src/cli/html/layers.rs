//! The graph of a pipeline as a picture. A call of a layer or a function is one box, which opens into a picture of its own.
//! The copies of a repeated call are one box.

use std::collections::HashMap;

use engine_core::ir::{Graph, InputKind, NodeId, NodeOp, Type, Value};
use engine_core::pipeline::{Pipeline, WrittenCall};

use super::picture::{Box, Picture};
use super::written::{escaped, operations};

/// The picture of a pipeline, with the pictures of its calls to open.
pub(super) fn section(pipeline: &Pipeline) -> String {
    let calls = Calls::of(pipeline);
    let nodes: Vec<NodeId> = (0..pipeline.graph.nodes.len()).collect();
    Level::new(&pipeline.graph, &calls, "", &nodes).html(&pipeline.graph, &calls)
}

/// The calls of a pipeline by their paths, and by the names of their results.
struct Calls<'p> {
    by_path: HashMap<&'p str, &'p WrittenCall>,
    by_result: HashMap<&'p str, Vec<&'p WrittenCall>>,
}

impl<'p> Calls<'p> {
    fn of(pipeline: &'p Pipeline) -> Self {
        let mut by_result: HashMap<&str, Vec<&WrittenCall>> = HashMap::new();
        for call in &pipeline.calls {
            call.results.iter().for_each(|result| by_result.entry(result).or_default().push(call));
        }
        Calls { by_path: pipeline.calls.iter().map(|call| (&*call.path, call)).collect(), by_result }
    }

    /// The outermost call within `scope` that has made the node of that name.
    fn around(&self, scope: &str, name: &str) -> Option<&'p WrittenCall> {
        let is_inside = |path: &str| path.len() > scope.len() && starts_with(path, scope);
        let ends = name.match_indices('.').map(|(end, _)| end).chain([name.len()]);
        let by_path = ends.filter_map(|end| self.by_path.get(&name[..end]).copied());
        let by_result = self.by_result.get(name).into_iter().flatten().copied();
        by_path.chain(by_result).filter(|call| is_inside(&call.path)).min_by_key(|call| call.path.len())
    }
}

/// Whether a path is `scope`, or within it.
fn starts_with(path: &str, scope: &str) -> bool {
    scope.is_empty() || path.strip_prefix(scope).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The items of one picture, in an order in which operands come first.
struct Level<'p> {
    items: Vec<Item<'p>>,
    edges: Vec<(usize, usize)>,
}

/// One box.
struct Item<'p> {
    name: String,
    nodes: Vec<NodeId>,
    call: Option<&'p WrittenCall>,
    /// Whether it comes from outside the picture.
    is_given: bool,
    n_params: usize,
}

impl<'p> Level<'p> {
    fn new(graph: &'p Graph, calls: &Calls<'p>, scope: &str, nodes: &[NodeId]) -> Self {
        let mut level = Level { items: vec![], edges: vec![] };
        let mut item_of: HashMap<NodeId, usize> = HashMap::new();
        for &node in nodes {
            match &graph.nodes[node].op {
                NodeOp::Input(InputKind::Data) => _ = item_of.insert(node, level.given(graph, node)),
                NodeOp::Const(_) | NodeOp::Input(_) => {}
                _ => {
                    level.add_givens(graph, node, (nodes, &mut item_of));
                    let item = level.item_for(graph, calls, scope, node);
                    item_of.insert(node, item);
                    level.connect(graph, node, item, &item_of);
                }
            }
        }
        level.edges.sort_by_key(|(from, to)| (*to, *from));
        level
    }

    /// The item of a value from outside.
    fn given(&mut self, graph: &Graph, node: NodeId) -> usize {
        let name = graph.nodes[node].name().to_string();
        self.items.push(Item { name, nodes: vec![node], call: None, is_given: true, n_params: 0 });
        self.items.len() - 1
    }

    /// Items for operands from outside the level.
    fn add_givens(
        &mut self,
        graph: &Graph,
        node: NodeId,
        (nodes, item_of): (&[NodeId], &mut HashMap<NodeId, usize>),
    ) {
        for Value { node: operand, .. } in &graph.nodes[node].inputs {
            let is_tensor = match graph.nodes[*operand].op {
                NodeOp::Input(kind) => kind == InputKind::Data,
                NodeOp::Const(_) => false,
                _ => true,
            };
            if is_tensor && nodes.binary_search(operand).is_err() && !item_of.contains_key(operand) {
                let item = self.given(graph, *operand);
                item_of.insert(*operand, item);
            }
        }
    }

    /// The item of a node: that of its call, or that of the named node whose expression it is a part of.
    fn item_for(&mut self, graph: &Graph, calls: &Calls<'p>, scope: &str, node: NodeId) -> usize {
        let name = graph.nodes[node].name();
        let call = calls.around(scope, name);
        if let Some(call) = call
            && let Some(known) = self.items.iter().position(|item| item.call == Some(call))
        {
            self.items[known].nodes.push(node);
            return known;
        }
        // A result has the name of the call, or of the node that makes the call.
        let rest = name.strip_prefix(scope).filter(|rest| !rest.is_empty());
        let rest = rest.map_or("result", |rest| rest.trim_start_matches('.'));
        let first = rest.split('.').next().unwrap_or_default();
        let is_part = first.parse::<usize>().is_ok();
        let title = match call {
            Some(call) => call.path.strip_prefix(scope).unwrap_or(&call.path).trim_start_matches('.'),
            None if is_part => rest,
            None => first,
        };
        let continues = call.is_none() && !is_part;
        match self.items.last_mut() {
            Some(last) if continues && last.call.is_none() && !last.is_given && last.name == title => {
                last.nodes.push(node);
            }
            _ => {
                let name = title.to_string();
                self.items.push(Item { name, nodes: vec![node], call, is_given: false, n_params: 0 });
            }
        }
        self.items.len() - 1
    }

    /// The edges into a node, and its parameters.
    fn connect(&mut self, graph: &Graph, node: NodeId, item: usize, item_of: &HashMap<NodeId, usize>) {
        for Value { node: operand, .. } in &graph.nodes[node].inputs {
            if let NodeOp::Input(InputKind::Param) = graph.nodes[*operand].op {
                let ty = &graph.nodes[*operand].outputs[0].ty;
                self.items[item].n_params += if ty.is_bound() { ty.numel() } else { 0 };
            }
            if let Some(&from) = item_of.get(operand)
                && from < item
                && !self.edges.contains(&(from, item))
            {
                self.edges.push((from, item));
            }
        }
    }

    fn html(&self, graph: &'p Graph, calls: &Calls<'p>) -> String {
        let boxes = self.items.iter().map(|item| item.drawn(graph)).collect();
        let mut text = Picture { boxes, edges: self.edges.clone() }.svg();
        for item in &self.items {
            let Some(call) = item.call else { continue };
            let (scope, inside) = item.inside(graph, call);
            let level = Level::new(graph, calls, &scope, &inside);
            text.push_str(&format!(
                "<details><summary>{} <small>{}</small></summary>\n{}</details>\n",
                escaped(&item.name),
                escaped(&item.made_by(graph)),
                level.html(graph, calls)
            ));
        }
        text
    }
}

impl Item<'_> {
    /// The scope and the nodes of the picture that the box opens into: of a repeated call, those of the first copy.
    fn inside(&self, graph: &Graph, call: &WrittenCall) -> (String, Vec<NodeId>) {
        let scope = match call.repeat {
            Some(_) => format!("{}.0", call.path),
            None => call.path.to_string(),
        };
        let is_inside =
            |node: &NodeId| call.repeat.is_none() || starts_with(graph.nodes[*node].name(), &scope);
        let params = |node: &NodeId| matches!(graph.nodes[*node].op, NodeOp::Input(_));
        let nodes = self.nodes.iter().copied().filter(|node| is_inside(node) && !params(node)).collect();
        (scope, nodes)
    }

    fn drawn(&self, graph: &Graph) -> Box {
        let ty = self.ty(graph).map_or(String::new(), Type::to_string);
        let lines = match self.is_given {
            true => [self.name.clone(), ty.clone()],
            false => [self.name.clone(), self.made_by(graph)],
        };
        let params = match self.n_params {
            0 => String::new(),
            n => format!(", {} parameters", operations(n as u64)),
        };
        let class = match (self.is_given, self.call) {
            (true, _) => "rows",
            (false, Some(_)) => "matmul",
            (false, None) => "map",
        };
        Box { title: format!("{}: {ty}, {}{params}", self.name, self.made_by(graph)), lines, class }
    }

    /// The type of its last value.
    fn ty<'g>(&self, graph: &'g Graph) -> Option<&'g Type> {
        let last = self.nodes.last()?;
        graph.nodes[*last].outputs.first().map(|output| &output.ty)
    }

    /// `TransformerBlock ×12`, or the ops of an expression.
    fn made_by(&self, graph: &Graph) -> String {
        if let Some(call) = self.call {
            let copies = call.repeat.map_or(String::new(), |n| format!(" ×{n}"));
            return format!("{}{copies}", call.function);
        }
        let op = |node: &NodeId| match &graph.nodes[*node].op {
            NodeOp::Call(call) => Some(call.form().name.clone()),
            NodeOp::Input(_) => Some("input".to_string()),
            _ => None,
        };
        self.nodes.iter().filter_map(op).collect::<Vec<_>>().join(" ")
    }
}
