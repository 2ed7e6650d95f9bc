//! The values of a model: known numbers, tensors of the pipeline, and weights that nothing has used yet.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use engine_core::diag::Diagnostic;
use engine_core::front::Draft;
use engine_core::ir::{DType, Dim, Type};
use engine_core::op::Registry;
use engine_core::text::expr::{Expr, ExprKind};

use crate::fault::unsupported;
use crate::known::{Known, Number};
use crate::literal::of_number;
use crate::names::Names;
use crate::narrow::Narrow;
use crate::table::expression;
use crate::tensor::{Element, Stored};

/// A value of a model. At least one field is there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Item {
    pub(crate) known: Option<Known>,
    stored: Option<Stored>,
    tensor: Option<(String, Type)>,
    /// The elements of a short tensor of floats. Settings may need them; ops compute with the tensor.
    listed: Option<Known>,
    /// The parts of a value that is no tensor.
    pub(crate) content: Option<Content>,
    /// The type whose numbers it holds, if the engine lacks it.
    pub(crate) narrow: Option<&'static Narrow>,
}

impl Item {
    /// Known numbers, of a type that the engine may lack.
    pub(crate) fn of(known: Known, narrow: Option<&'static Narrow>) -> Item {
        Item { known: Some(known), narrow, ..Item::default() }
    }

    /// A tensor of the pipeline.
    pub(crate) fn tensor(name: &str, ty: Type, narrow: Option<&'static Narrow>) -> Item {
        Item { tensor: Some((name.to_owned(), ty)), narrow, ..Item::default() }
    }

    /// A value that is no tensor.
    pub(crate) fn without_tensor(content: Content) -> Item {
        Item { content: Some(content), ..Item::default() }
    }

    fn is_constant(&self) -> bool {
        self.known.is_some() || self.stored.is_some()
    }
}

/// A parameter of the pipeline.
#[derive(Clone, Debug)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// Its elements.
    pub value: Stored,
}

/// A node of the pipeline.
#[derive(Clone, Debug)]
pub(crate) struct Defined {
    pub(crate) name: String,
    pub(crate) expr: Expr,
}

/// A function of the pipeline: the body of a loop.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    pub(crate) name: String,
    pub(crate) inputs: Vec<(String, Type)>,
    pub(crate) nodes: Vec<Defined>,
    /// The labels of the results, and the tensors that they are.
    pub(crate) outputs: Vec<(String, String)>,
    /// The calls of ops that it stands for.
    pub(crate) n_calls: usize,
    /// The functions that it calls within each other, itself included.
    pub(crate) depth: usize,
}

/// A value that is no tensor.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Sequence(Vec<Rc<Item>>),
    /// An optional value without an element.
    Nothing,
}

/// How far a translation has come: the numbers of its parts.
pub(crate) struct Mark {
    nodes: usize,
    params: usize,
    bodies: usize,
    scopes: usize,
    late: usize,
}

/// All values by their names in the model, and the parts of the pipeline that they have led to.
pub(crate) struct Values<'r> {
    draft: Draft<'r>,
    pub(crate) registry: &'r Registry,
    pub(crate) names: Names,
    items: HashMap<String, Item>,
    pub(crate) params: Vec<Param>,
    pub(crate) nodes: Vec<Defined>,
    /// The bodies of loops.
    pub(crate) bodies: Vec<Body>,
    /// The names of the nodes.
    defined: HashSet<String>,
    /// The types of tensors by their names in the pipeline.
    types: HashMap<String, Type>,
    /// The values that became tensors when one was needed.
    late: Vec<String>,
    /// The names that each graph within a node has added, outermost first.
    scopes: Vec<Vec<String>>,
}

impl<'r> Values<'r> {
    pub(crate) fn new(registry: &'r Registry) -> Values<'r> {
        let draft = Draft::new(registry);
        Values {
            draft,
            registry,
            names: Names::default(),
            items: HashMap::new(),
            params: vec![],
            nodes: vec![],
            bodies: vec![],
            defined: HashSet::new(),
            types: HashMap::new(),
            late: vec![],
            scopes: vec![],
        }
    }

    /// Whether a value of that name is there.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.items.contains_key(name)
    }

    /// Whether a value is a tensor, or missing.
    pub(crate) fn is_tensor(&self, name: &str) -> bool {
        self.items.get(name).is_none_or(|item| item.content.is_none())
    }

    /// A value.
    pub(crate) fn item(&self, name: &str) -> Option<Item> {
        self.items.get(name).cloned()
    }

    /// Gives a value a name.
    pub(crate) fn put(&mut self, name: &str, item: Item) {
        self.items.insert(name.to_owned(), item);
        self.scopes.iter_mut().last().into_iter().for_each(|scope| scope.push(name.to_owned()));
    }

    /// Whether the present graph is that of the model.
    pub(crate) fn is_outermost(&self) -> bool {
        self.scopes.is_empty()
    }

    /// Begins a graph within a node.
    pub(crate) fn enter(&mut self) {
        self.scopes.push(vec![]);
    }

    /// Ends the graph, and forgets its names.
    pub(crate) fn leave(&mut self) {
        for name in self.scopes.pop().unwrap_or_default() {
            self.items.remove(&name);
        }
    }

    /// The present state, for [`Values::cut`] and [`Values::roll_back`].
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            nodes: self.nodes.len(),
            params: self.params.len(),
            bodies: self.bodies.len(),
            scopes: self.scopes.len(),
            late: self.late.len(),
        }
    }

    /// Takes the nodes since then, which become those of a function. Other values forget that they are among them.
    pub(crate) fn cut(&mut self, mark: &Mark) -> Vec<Defined> {
        let nodes = self.nodes.split_off(mark.nodes);
        let names: HashSet<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        for late in self.late.split_off(mark.late) {
            let is_cut = |item: &Item| item.tensor.as_ref().is_some_and(|(name, _)| names.contains(&**name));
            match self.items.get_mut(&late) {
                Some(item) if is_cut(item) => item.tensor = None,
                _ => self.late.push(late),
            }
        }
        nodes
    }

    /// Forgets all since then.
    pub(crate) fn roll_back(&mut self, mark: &Mark) {
        while self.scopes.len() > mark.scopes {
            self.leave();
        }
        self.nodes.truncate(mark.nodes);
        self.params.truncate(mark.params);
        self.bodies.truncate(mark.bodies);
        for late in self.late.split_off(mark.late) {
            if let Some(item) = self.items.get_mut(&late).filter(|item| item.is_constant()) {
                item.tensor = None;
            }
        }
    }

    /// The known numbers of a value.
    pub(crate) fn known(&self, name: &str) -> Option<&Known> {
        self.items.get(name)?.known.as_ref()
    }

    /// The elements of a value that settings may need.
    pub(crate) fn listed(&self, name: &str) -> Option<&Known> {
        self.items.get(name)?.listed.as_ref()
    }

    /// Says which elements settings find in a tensor.
    pub(crate) fn set_listed(&mut self, name: &str, listed: Option<Known>) {
        if let Some(item) = self.items.get_mut(name) {
            item.listed = listed;
        }
    }

    /// Says which numbers an input is known to have.
    pub(crate) fn set_known(&mut self, name: &str, known: Known) {
        if let Some(item) = self.items.get_mut(name) {
            item.known = Some(known);
        }
    }

    /// The tensor of the model behind a value.
    pub(crate) fn stored(&self, name: &str) -> Option<&Stored> {
        self.items.get(name)?.stored.as_ref()
    }

    /// Whether a name is that of a node.
    pub(crate) fn is_node(&self, name: &str) -> bool {
        self.defined.contains(name)
    }

    /// The type of a value.
    pub(crate) fn type_of(&self, name: &str) -> Option<Type> {
        let item = self.items.get(name)?;
        let stored = item.stored.as_ref().map(|stored| (stored.dtype, &stored.dims));
        let known = item.known.as_ref().map(|known| (known.dtype, &known.dims));
        let of = |(dtype, dims): (DType, &Vec<usize>)| Type::new(dtype, dims);
        item.tensor.as_ref().map(|(_, ty)| ty.clone()).or_else(|| stored.or(known).map(of))
    }

    /// The element type of a value.
    pub(crate) fn element(&self, name: &str) -> Option<Element> {
        Some((self.type_of(name)?.dtype, self.items.get(name)?.narrow))
    }

    /// Says whose numbers the elements of a value are.
    pub(crate) fn set_narrow(&mut self, name: &str, narrow: Option<&'static Narrow>) {
        if let Some(item) = self.items.get_mut(name) {
            item.narrow = narrow;
        }
    }

    /// Adds known numbers.
    pub(crate) fn add_known(&mut self, name: &str, known: Known) {
        self.put(name, Item { known: Some(known), ..Item::default() });
    }

    /// Adds a tensor of the model. Integers, truth values and scalars are also known numbers.
    pub(crate) fn add_stored(&mut self, name: &str, stored: Stored) {
        let is_number = !stored.dtype.is_float() || stored.dims.is_empty();
        let known = if is_number { Known::of(&stored) } else { None };
        let narrow = stored.narrow;
        self.put(name, Item { known, stored: Some(stored), narrow, ..Item::default() });
    }

    /// Adds an input of the pipeline.
    pub(crate) fn add_input(
        &mut self,
        onnx: &str,
        name: &str,
        (ty, narrow): (Type, Option<&'static Narrow>),
    ) {
        self.declare(name, ty.clone());
        self.put(onnx, Item::tensor(name, ty, narrow));
    }

    /// Lets expressions read a name.
    fn declare(&mut self, name: &str, ty: Type) {
        self.draft.input(name, ty.clone());
        self.types.insert(name.to_owned(), ty);
    }

    /// The type of a tensor of the pipeline.
    pub(crate) fn tensor_type(&self, name: &str) -> Option<&Type> {
        self.types.get(name)
    }

    /// An operand of a function whose nodes follow.
    pub(crate) fn local(&mut self, like: &str, ty: Type) -> String {
        let name = self.names.source(like);
        self.declare(&name, ty);
        name
    }

    /// Adds a call of a function with these results. The first bears the name of the call, the others follow it: `loop.y`.
    pub(crate) fn call(&mut self, name: &str, expr: Expr, results: &[(String, Type)]) -> Vec<String> {
        let mut names = vec![];
        for (at, (label, ty)) in results.iter().enumerate() {
            let result = if at == 0 { name.to_owned() } else { format!("{name}.{label}") };
            self.declare(&result, ty.clone());
            names.push(result);
        }
        self.nodes.push(Defined { name: name.to_owned(), expr });
        self.defined.insert(name.to_owned());
        names
    }

    /// Lets a further name stand for a value.
    pub(crate) fn alias(&mut self, onnx: &str, other: &str) {
        if let Some(item) = self.items.get(other).cloned() {
            self.put(onnx, item);
        }
    }

    /// Gives an expression the name of a value of the model.
    ///
    /// # Errors
    /// If the engine refuses the expression.
    pub(crate) fn define(&mut self, onnx: &str, expr: Expr) -> Result<String, Diagnostic> {
        let (name, ty) = self.push(onnx, expr)?;
        self.put(onnx, Item::tensor(&name, ty, None));
        Ok(name)
    }

    /// The tensor of a value, which becomes a parameter or a node now if it is none yet.
    ///
    /// # Errors
    /// If it has elements that are open extents.
    pub(crate) fn tensor(&mut self, onnx: &str) -> Result<(String, Type), Diagnostic> {
        let item = self.items.get(onnx).cloned().unwrap_or_default();
        let is_new = item.tensor.is_none();
        let tensor = self.tensor_of(onnx, item)?;
        if is_new {
            self.items.entry(onnx.to_owned()).or_default().tensor = Some(tensor.clone());
            self.late.push(onnx.to_owned());
        }
        Ok(tensor)
    }

    /// The tensor of an item, which becomes a parameter or a node like that name if it is none.
    ///
    /// # Errors
    /// If it has elements that are open extents.
    pub(crate) fn tensor_of(&mut self, like: &str, item: Item) -> Result<(String, Type), Diagnostic> {
        if let Some(tensor) = item.tensor {
            return Ok(tensor);
        }
        let regular = item.known.as_ref().and_then(regular);
        match (regular, item.stored.or_else(|| item.known.as_ref().and_then(Known::stored))) {
            (Some(expr), _) => self.push(like, expr),
            (None, Some(stored)) => Ok(self.param(like, stored)),
            (None, None) if item.content.is_some() => Err(no_tensor(like)),
            (None, None) => Err(open_extents(like)),
        }
    }

    /// A node that belongs to no value of the model, under a name like that one. It holds numbers of a type that the engine may
    /// lack.
    ///
    /// # Errors
    /// If the engine refuses the expression.
    pub(crate) fn derive(
        &mut self,
        like: &str,
        text: &str,
        narrow: Option<&'static Narrow>,
    ) -> Result<Item, Diagnostic> {
        let (name, ty) = self.push(like, expression(text))?;
        Ok(Item::tensor(&name, ty, narrow))
    }

    /// Adds a node under a name like that one.
    fn push(&mut self, onnx: &str, expr: Expr) -> Result<(String, Type), Diagnostic> {
        let name = self.names.unique(onnx);
        let ty = self.draft.node(&name, &expr.to_string())?;
        self.nodes.push(Defined { name: name.clone(), expr });
        self.defined.insert(name.clone());
        self.types.insert(name.clone(), ty.clone());
        Ok((name, ty))
    }

    fn param(&mut self, onnx: &str, value: Stored) -> (String, Type) {
        let name = self.names.source(onnx);
        let ty = Type::new(value.dtype, &value.dims);
        self.declare(&name, ty.clone());
        self.params.push(Param { name: name.clone(), value });
        (name, ty)
    }

    /// A value as an operand. A number stands as such beside a tensor of at least its rank.
    pub(crate) fn operand(&mut self, onnx: &str, beside: Option<usize>) -> Result<Expr, Diagnostic> {
        if let (Some(known), Some(rank)) = (self.known(onnx), beside)
            && known.dims.len() <= rank
            && let Some(number) = known.single()
            && !matches!(number, Number::Dim(_))
        {
            return Ok(of_number(&number.decimal(known.dtype)));
        }
        self.tensor(onnx).map(|(name, _)| expression(&name))
    }
}

fn no_tensor(onnx: &str) -> Diagnostic {
    unsupported(
        format!("the value `{onnx}` is a sequence, or an optional value without an element"),
        "inputs, outputs, and values that loops and branches on data hand on are tensors",
    )
}

fn open_extents(onnx: &str) -> Diagnostic {
    unsupported(
        format!("the value `{onnx}` is made of extents that are open"),
        "give them as numbers: `engine import --dim B=8`",
    )
}

/// A known value as an expression, if its elements are equal or equally spaced.
fn regular(known: &Known) -> Option<Expr> {
    let shape: Vec<String> = known.dims.iter().map(usize::to_string).collect();
    let shape = shape.join(", ");
    let dtype = known.dtype;
    let first = known.elements.first()?;
    if matches!(first, Number::Dim(_)) {
        return None;
    }
    let bits = |element: &Number| element.float().map(f64::to_bits);
    if known.elements.iter().all(|element| element == first && bits(element) == bits(first)) {
        let dtype = if dtype == DType::F32 { String::new() } else { format!(", dtype={dtype}") };
        let value = of_number(&first.decimal(known.dtype));
        return Some(expression(&format!("full(value={value}, shape=[{shape}]{dtype})")));
    }
    let ints = known.ints().filter(|_| dtype.is_int())?;
    let is_vector = known.dims.iter().filter(|&&extent| extent != 1).count() == 1;
    let step = ints.get(1)?.checked_sub(ints[0])?;
    let is_spaced = ints.windows(2).all(|pair| pair[1].checked_sub(pair[0]) == Some(step));
    if !is_vector || !is_spaced || step == 0 {
        return None;
    }
    let stop = ints.last()?.checked_add(step.signum())?;
    let start = if ints[0] == 0 { String::new() } else { format!("start={}, ", ints[0]) };
    let step = if step == 1 { String::new() } else { format!(", step={step}") };
    let row = format!("arange({start}stop={stop}{step}, dtype={dtype})");
    Some(expression(&if known.dims.len() == 1 { row } else { format!("reshape({row}, shape=[{shape}])") }))
}

/// The name that an expression is, if it is one.
pub(crate) fn name_of(expr: &Expr) -> Option<&str> {
    match &expr.kind {
        ExprKind::Name(name) => Some(name),
        _ => None,
    }
}

/// The extents of a type as numbers.
pub(crate) fn extents(ty: &Type) -> Vec<Number> {
    ty.shape.iter().map(|dim: &Dim| Number::of(dim)).collect()
}
