//! The nodes of a model, one after the other, as expressions.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::rc::Rc;

use bytes::Bytes;
use engine_core::diag::{Code, Diagnostic, nearest};
use engine_core::ir::Symbol;
use engine_core::op::Registry;
use prost::Message;

use crate::compose::compose;
use crate::fault::{broken, malformed, unsupported};
use crate::fold::fold;
use crate::functions::Functions;
use crate::known::Known;
use crate::narrow::Narrow;
use crate::node::{Attribute, Node, SETTLE, SETTLE_VALUES, SOME_EXTENT};
use crate::proto::{GraphProto, OperatorSetIdProto, TensorProto};
use crate::scope::{KNOWN_HELP, Scope};
use crate::table::{self, Row};
use crate::template::Template;
use crate::tensor;
use crate::values::{Item, Values};

/// The most calls of functions within each other.
const MOST_CALLS: usize = 32;
/// The opset of nodes that stand for a node.
const COMPOSED_OPSET: i64 = 24;
/// The most nodes of a model, those of branches included.
const MOST_NODES: usize = 1 << 20;

/// The most open extents that a message names.
const MOST_ADVISED: usize = 3;

/// The first opset whose elementwise ops broadcast all operands.
const FIRST_MODERN: i64 = 7;

/// Ops without a translation whose results have extents that only data determine.
const BY_DATA: [&str; 1] = ["NonMaxSuppression"];

/// What is said of them.
pub(crate) const IS_BY_DATA: &str = "has a result whose extents only data determine";

/// Ops without a row of the table whose results are elements of their first operand.
const MOVES: &[&str] = &[
    "CenterCropPad",
    "Compress",
    "GatherND",
    "Pad",
    "Resize",
    "ScatterElements",
    "ScatterND",
    "Slice",
    "Split",
    "Upsample",
];

/// Translates a node.
pub(crate) type Translate = fn(&mut Translation, &Node) -> Result<(), Diagnostic>;

/// What the table does not say.
#[derive(Clone, Copy)]
pub(crate) struct Forms {
    /// The translations of ops.
    pub(crate) special: &'static [(&'static str, Translate)],
    /// A node of opset 6 as opset 7 writes it.
    pub(crate) modern: fn(&mut Translation, &Node) -> Result<Node, Diagnostic>,
}

/// A model on its way to a pipeline.
pub(crate) struct Translation<'m, 'r> {
    pub(crate) values: Values<'r>,
    pub(crate) opset: i64,
    /// Whether PyTorch has written the model.
    pub(crate) is_pytorch: bool,
    /// The folder of the model, where external data lie.
    pub(crate) folder: Option<&'m Path>,
    /// Extents that the user gives.
    pub(crate) dims: &'m [(Symbol, usize)],
    forms: Forms,
    /// The extents of inputs that have names.
    pub(crate) open_extents: HashSet<String>,
    /// Their names in the model.
    pub(crate) open_names: Vec<String>,
    /// Those among them that need a value in the pipeline.
    pub(crate) settled: HashSet<String>,
    /// The functions of the model.
    pub(crate) functions: Rc<Functions>,
    /// Calls of functions around the present node.
    depth: usize,
    n_nodes: usize,
}

impl<'m, 'r> Translation<'m, 'r> {
    pub(crate) fn new(
        registry: &'r Registry,
        opset: i64,
        folder: Option<&'m Path>,
        dims: &'m [(Symbol, usize)],
        forms: Forms,
    ) -> Translation<'m, 'r> {
        Translation {
            values: Values::new(registry),
            opset,
            is_pytorch: false,
            folder,
            dims,
            forms,
            open_extents: HashSet::new(),
            open_names: vec![],
            settled: HashSet::new(),
            functions: Rc::default(),
            depth: 0,
            n_nodes: 0,
        }
    }

    /// The translation of an op that the table does not say.
    fn special(&self, op: &str) -> Option<Translate> {
        self.forms.special.iter().find(|(name, _)| *name == op).map(|(_, translate)| *translate)
    }

    /// Notes names of open extents that need a value in the pipeline. Other names do not matter.
    pub(crate) fn settle(&mut self, names: Vec<String>) {
        self.settled.extend(names.into_iter().filter(|name| self.open_extents.contains(name)));
    }

    /// Adds the tensors that a graph holds.
    ///
    /// # Errors
    /// If one is malformed.
    pub(crate) fn initializers(&mut self, graph: &GraphProto) -> Result<(), Diagnostic> {
        if !graph.sparse_initializer.is_empty() {
            return Err(unsupported("the model has sparse tensors", "export it with dense weights"));
        }
        for bytes in &graph.initializer {
            let proto = TensorProto::decode(bytes.clone()).map_err(|error| malformed("a tensor", &error))?;
            let stored = tensor::read(&proto, self.folder)?;
            self.expect_new(&proto.name, "a tensor")?;
            self.values.add_stored(&proto.name, stored);
        }
        Ok(())
    }

    pub(crate) fn expect_new(&self, name: &str, what: &str) -> Result<(), Diagnostic> {
        match self.values.has(name) {
            true => Err(broken(format!("{what} redefines `{name}`"), "a value of a model has one origin")),
            false => Ok(()),
        }
    }

    /// Translates the nodes of a graph.
    ///
    /// # Errors
    /// The first node that is malformed or has no translation.
    pub(crate) fn nodes(&mut self, encoded: &[Bytes]) -> Result<(), Diagnostic> {
        self.count(encoded.len())?;
        let nodes = encoded.iter().map(|bytes| Node::read(bytes, self.folder));
        self.translate(&nodes.collect::<Result<Vec<_>, _>>()?)
    }

    /// Counts nodes, before they take memory.
    pub(crate) fn count(&mut self, n: usize) -> Result<(), Diagnostic> {
        self.n_nodes = self.n_nodes.saturating_add(n);
        match self.n_nodes > MOST_NODES {
            true => {
                Err(unsupported(format!("the model has more than {MOST_NODES} nodes"), "import a part of it"))
            }
            false => Ok(()),
        }
    }

    /// Translates the nodes that stand for a node.
    ///
    /// # Errors
    /// If one of them has no translation.
    pub(crate) fn translate_composed(&mut self, nodes: &[Node]) -> Result<(), Diagnostic> {
        let outer = std::mem::replace(&mut self.opset, COMPOSED_OPSET);
        let found = self.count(nodes.len()).and_then(|()| self.translate(nodes));
        self.opset = outer;
        found
    }

    /// Translates nodes of the present graph.
    ///
    /// # Errors
    /// The first node that has no translation.
    pub(crate) fn translate(&mut self, nodes: &[Node]) -> Result<(), Diagnostic> {
        self.expect_known_ops(nodes)?;
        nodes.iter().try_for_each(|node| self.node(node))
    }

    /// Reports the first node whose op has no translation, and the number of further such ops. Those of graphs within nodes
    /// count, too. A branch alone is no fault, since it may not be taken.
    fn expect_known_ops(&self, nodes: &[Node]) -> Result<(), Diagnostic> {
        let mut missing = vec![];
        self.find_missing(nodes, false, &mut missing)?;
        let Some((first, _)) = missing.iter().find(|(_, is_in_branch)| !is_in_branch) else { return Ok(()) };
        let mut others: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        let is_other = |node: &&Node| (&node.op, &node.domain) != (&first.op, &first.domain);
        for node in missing.iter().map(|(node, _)| node).filter(is_other) {
            *others.entry((&node.domain, &node.op)).or_default() += 1;
        }
        let domain = if first.domain.is_empty() { "ai.onnx" } else { &first.domain };
        let message = format!(
            "{}: the op {} of the domain {domain} has no translation in opset {}",
            first.describe(),
            first.op,
            self.opset
        );
        let known = table::rows()
            .iter()
            .map(|row| row.op.as_str())
            .chain(self.forms.special.iter().map(|(name, _)| *name));
        let near = nearest(&first.op, known).filter(|near| *near != first.op);
        let near = near.map(|near| format!("the nearest known op is {near}; ")).unwrap_or_default();
        let near = match BY_DATA.contains(&first.op.as_str()) {
            true => format!("it {}, so end the model before it; ", IS_BY_DATA),
            false => near,
        };
        let others: Vec<String> = others.iter().map(|((_, op), n)| format!("{op} ({n})")).collect();
        let others = match others.len() {
            0 => "no other op is missing".to_owned(),
            n => format!(
                "{n} more {} missing: {}",
                if n == 1 { "op is" } else { "ops are" },
                others.join(", ")
            ),
        };
        Err(unsupported(message, format!("{near}{others}")))
    }

    /// The nodes without a translation, and whether each is in a branch. Only the outermost graph looks into those of its
    /// nodes.
    fn find_missing(
        &self,
        nodes: &[Node],
        is_in_branch: bool,
        missing: &mut Vec<(Node, bool)>,
    ) -> Result<(), Diagnostic> {
        for node in nodes {
            if !self.is_own(node) && !self.functions.contains_key(&(node.domain.clone(), node.op.clone())) {
                missing.push((Node { attributes: BTreeMap::new(), ..node.clone() }, is_in_branch));
            }
            if !self.values.is_outermost() {
                continue;
            }
            let is_in_branch = is_in_branch || node.op == "If";
            for graph in node.attributes.values().filter_map(Attribute::graph) {
                let inner = graph.node.iter().map(|bytes| Node::read(bytes, self.folder));
                self.find_missing(&inner.collect::<Result<Vec<_>, _>>()?, is_in_branch, missing)?;
            }
        }
        Ok(())
    }

    fn node(&mut self, node: &Node) -> Result<(), Diagnostic> {
        if node.outputs.is_empty() {
            return Ok(());
        }
        for input in node.inputs.iter().filter(|name| !name.is_empty()) {
            if !self.values.has(input) {
                let message = format!("{} reads `{input}`, which no earlier node gives", node.describe());
                return Err(broken(
                    message,
                    "nodes of a model are sorted, and do not depend on each other in a circle",
                ));
            }
        }
        for output in node.outputs.iter().filter(|name| !name.is_empty()) {
            self.expect_new(output, &node.describe())?;
        }
        let modern;
        let node = match self.opset < FIRST_MODERN && self.is_own(node) {
            true => {
                modern = (self.forms.modern)(self, node)?;
                &modern
            }
            false => node,
        };
        self.expect_tensors(node)?;
        let known = |name: &String| self.values.known(name);
        let inputs: Vec<Option<&Known>> = node.inputs.iter().map(known).collect();
        let narrow = self.narrow(node);
        if let (Some(found), None) = (fold(node, &inputs), narrow) {
            let named = node.outputs.iter().zip(found).filter(|(output, _)| !output.is_empty());
            named.for_each(|(output, known)| self.values.add_known(output, known));
            return Ok(());
        }
        if !self.is_own(node)
            && let Some(called) = self.call(node)
        {
            return called;
        }
        match (self.special(&node.key()), table::find(&node.key(), self.opset)) {
            (Some(translate), _) => {
                let found = translate(self, node);
                if MOVES.contains(&node.op.as_str()) {
                    node.outputs.iter().for_each(|output| self.values.set_narrow(output, narrow));
                }
                found
            }
            (None, Some(row)) if row.is_composed => {
                let nodes = self.expect_fit(node, row).and_then(|()| compose(&self.values, node, row));
                nodes.and_then(|nodes| self.translate_composed(&nodes))
            }
            (None, Some(row)) => self.row(node, row),
            (None, None) => self.expect_known_ops(std::slice::from_ref(node)),
        }
        .map_err(|fault| self.of_node(node, fault))
    }

    /// Fails if an op on tensors reads a value that is none.
    fn expect_tensors(&self, node: &Node) -> Result<(), Diagnostic> {
        match node.inputs.iter().find(|name| !self.values.is_tensor(name)) {
            Some(name) if self.is_own(node) && !reads_sequences(&node.op) => Err(node.refused(
                &format!("reads `{name}`, which is no tensor"),
                "`SequenceAt` takes a part of a sequence",
            )),
            _ => Ok(()),
        }
    }

    /// A message of the engine names no node of the model, and no way to settle its extents.
    fn of_node(&self, node: &Node, mut fault: Diagnostic) -> Diagnostic {
        let is_named = fault.message.contains(&node.describe());
        if !is_named {
            fault.message = format!("{}: {}", node.describe(), fault.message);
        }
        self.advised(fault)
    }

    /// A fault whose help names the open extents of this model. Messages of the engine do not mention them.
    pub(crate) fn advised(&self, mut fault: Diagnostic) -> Diagnostic {
        let is_of_engine = !matches!(fault.code, Code::E0507 | Code::E0508);
        let own = fault.help.take().unwrap_or_default();
        let names = self.open_names.iter().take(MOST_ADVISED);
        let given: String = names.map(|name| format!(" --dim {name}=8")).collect();
        let help = match own.as_str() {
            SETTLE if given.is_empty() => SETTLE_VALUES.to_owned(),
            _ if given.is_empty() => own,
            _ if own.contains("--dim") => own.replace(SOME_EXTENT, &given),
            "" if is_of_engine => format!("extents may be given as numbers: `engine import{given}`"),
            _ if is_of_engine || own == KNOWN_HELP => {
                format!("{own}; extents may be given as numbers: `engine import{given}`")
            }
            _ => own,
        };
        fault.help = Some(help).filter(|help| !help.is_empty());
        fault
    }

    /// Whether ONNX itself defines the op.
    fn is_own(&self, node: &Node) -> bool {
        let key = node.key();
        self.special(&key).is_some() || table::find(&key, self.opset).is_some()
    }

    /// Translates the nodes of the function that a node calls; nothing if there is no such function.
    fn call(&mut self, node: &Node) -> Option<Result<(), Diagnostic>> {
        let functions = Rc::clone(&self.functions);
        let function = functions.get(&(node.domain.clone(), node.op.clone()))?;
        if self.depth > MOST_CALLS {
            return Some(Err(broken(format!("{} calls itself", node.describe()), "export the model again")));
        }
        let opset = opset_of(&function.opsets).unwrap_or(self.opset);
        let outer = std::mem::replace(&mut self.opset, opset);
        self.depth += 1;
        let counted = self.count(function.n_nodes());
        let body = counted.and_then(|()| function.body(node));
        let translated = body.and_then(|body| self.translate(&body));
        self.depth -= 1;
        self.opset = outer;
        Some(translated)
    }

    /// The type of the operands, if the engine lacks it.
    fn narrow(&self, node: &Node) -> Option<&'static Narrow> {
        node.inputs.iter().find_map(|name| self.values.element(name)?.1)
    }

    /// Translates a node by a row of the table.
    fn row(&mut self, node: &Node, row: &Row) -> Result<(), Diagnostic> {
        self.expect_fit(node, row)?;
        let narrow = self.narrow(node);
        let mut template = Template { node, row, values: &mut self.values, first: None };
        for (output, result) in node.outputs.iter().zip(&row.results).filter(|(output, _)| !output.is_empty())
        {
            if let Some(other) = template.passed_on(result)? {
                template.values.alias(output, &other);
                continue;
            }
            let expr = template.result(result)?;
            let expr = narrow.map_or(expr.clone(), |narrow| narrow.kept(expr));
            let name = template.values.define(output, expr)?;
            let is_carried = |narrow: &&Narrow| {
                template.values.element(output).is_some_and(|(dtype, _)| dtype == narrow.carrier)
            };
            template.values.set_narrow(output, narrow.filter(is_carried));
            template.first.get_or_insert(name);
        }
        Ok(())
    }

    /// Fails if a node has operands or attributes that its row lacks, or others than it needs.
    fn expect_fit(&self, node: &Node, row: &Row) -> Result<(), Diagnostic> {
        let scope = Scope { node, row, values: &self.values };
        let is_variadic = row.inputs.last().is_some_and(|input| input.is_variadic);
        let needed = row.inputs.iter().enumerate().filter(|(_, input)| !input.is_optional);
        let missing = needed.filter(|(at, _)| node.input(*at).is_none()).map(|(_, input)| &input.name).next();
        if let Some(missing) = missing {
            return Err(broken(
                format!("{} lacks the operand `{missing}`", node.describe()),
                "export the model again",
            ));
        }
        if node.inputs.len() > row.inputs.len() && !is_variadic {
            let message = format!(
                "{} has {} operands, {} takes {}",
                node.describe(),
                node.inputs.len(),
                node.op,
                row.inputs.len()
            );
            return Err(broken(message, "export the model again"));
        }
        let is_unknown = |name: &&String| !row.attrs.iter().any(|(known, _)| known == *name);
        if let Some(unknown) = node.attributes.keys().find(is_unknown) {
            let known: Vec<&str> = row.attrs.iter().map(|(name, _)| name.as_str()).collect();
            let message = format!("{}: the attribute `{unknown}` has no translation", node.describe());
            return Err(unsupported(
                message,
                format!(
                    "{} has {}",
                    node.op,
                    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
                ),
            ));
        }
        match row.refuse.as_ref().map(|condition| scope.condition(condition)).transpose()? {
            Some(true) => {
                let condition = row.refuse.iter().map(|condition| condition.to_string()).collect::<String>();
                Err(unsupported(
                    format!("{} has no translation where `{condition}`", node.describe()),
                    "export it without this attribute",
                ))
            }
            _ => Ok(()),
        }
    }

    /// The results of a graph within a node, for these inputs. Its names end with it.
    pub(crate) fn region(
        &mut self,
        node: &Node,
        graph: &GraphProto,
        inputs: &[Item],
    ) -> Result<Vec<Item>, Diagnostic> {
        let uneven = || {
            let message = format!("{} has a graph of other inputs or outputs than it needs", node.describe());
            broken(message, "export the model again")
        };
        if graph.input.len() != inputs.len() {
            return Err(uneven());
        }
        self.values.enter();
        for (input, item) in graph.input.iter().zip(inputs) {
            self.expect_new(&input.name, "a graph")?;
            self.values.put(&input.name, item.clone());
        }
        self.initializers(graph)?;
        self.nodes(&graph.node)?;
        let found = graph.output.iter().map(|output| self.values.item(&output.name).ok_or_else(uneven));
        let found = found.collect();
        self.values.leave();
        found
    }
}

/// Whether an op reads sequences and optional values.
fn reads_sequences(op: &str) -> bool {
    op.contains("Sequence") || op.starts_with("Optional") || matches!(op, "Identity" | "Loop")
}

/// The opset of ONNX among others.
pub(crate) fn opset_of(imports: &[OperatorSetIdProto]) -> Option<i64> {
    let own = imports.iter().find(|import| import.domain.is_empty() || import.domain == "ai.onnx");
    own.map(|import| import.version)
}

/// The subgraph of that name.
pub(crate) fn subgraph<'n>(node: &'n Node, name: &str) -> Option<&'n GraphProto> {
    node.attributes.get(name).and_then(Attribute::graph)
}
