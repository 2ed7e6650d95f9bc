//! The settings of a call that say how it is called, and calls for each position of a sequence.

use super::super::manner::{Manner, Until};
use super::super::nodes::Setting;
use super::loops::{Trips, expect_stackable};
use super::reports::report_unknown_op;
use super::state::{FunctionCall, Operand, Typing};
use super::written::Place;
use crate::bind::MOST_UNROLLED;
use crate::diag::{Code, Span, Spanned};
use crate::ir::{Attr, Attrs, Dim, Keep, Symbol, Value};
use crate::op::{OpForm, TypeIssue};
use crate::text::expr::{Expr, ExprKind};

/// How often a call may be repeated.
const MAX_REPEAT: i64 = 1 << 16;
/// How many tensors the ops `stack` and `concat` take.
const MAX_JOINED: usize = 16;
/// The settings of a call that belong to no function, unless the function has a setting of that name.
const NAMES: [&str; 7] = ["repeat", "over", "until", "most", "unroll", "recompute", "keep"];
/// How many positions of a sequence a function may be called for, and how often until a condition holds.
const MAX_TRIPS: i64 = (1 << 31) - 1;

impl Typing<'_, '_> {
    /// The settings that say how a function is called, and the settings of the function itself.
    pub(super) fn manner_of(&mut self, written: &[Setting], form: &OpForm) -> Option<(Manner, Vec<Setting>)> {
        let is_manner =
            |name: &str| NAMES.contains(&name) && form.attrs.iter().all(|attr| &*attr.name != name);
        let (own, given): (Vec<_>, Vec<_>) =
            written.iter().cloned().partition(|(name, _)| is_manner(&name.value));
        let mut manner = Manner::default();
        for (at, (name, value)) in own.iter().enumerate() {
            if let Some((first, _)) = own[..at].iter().find(|(first, _)| first.value == name.value) {
                self.diags
                    .error(Code::E0013, name.span, format!("`{}` is given twice", name.value))
                    .also(first.span, "first here");
                return None;
            }
            match name.value.as_str() {
                "repeat" => manner.repeat = Some(self.repeat(value)?),
                "over" => manner.over = Some(self.axis(value)?),
                "until" => manner.until = Some(self.until(name, value, &own, form)?),
                "most" => self.expect_until(name, &own)?,
                "unroll" => {
                    let help = "with `true`, calls over a long sequence are written out one by one";
                    manner.unroll = self.truth("unroll", value, help)?;
                }
                "keep" => manner.keep = self.keep(name, value, &own)?,
                _ => {
                    let help = "with `true`, the backward pass computes the layer once more and keeps less in memory";
                    manner.recompute = self.truth("recompute", value, help)?;
                }
            }
        }
        let ways = [manner.repeat.is_some(), manner.over.is_some(), manner.until.is_some()];
        if ways.into_iter().filter(|way| *way).count() > 1 {
            let span = own[1].0.span;
            self.diags
                .error(Code::E0404, span, "a call has either `repeat`, `over` or `until`")
                .help("put one of them into a function, and call that with the other");
            return None;
        }
        Some((manner, given))
    }

    /// `until=done, most=300`: the result that ends the calls, and the most of them.
    fn until(
        &mut self,
        name: &Spanned<String>,
        value: &Expr,
        own: &[Setting],
        form: &OpForm,
    ) -> Option<Until> {
        let result = match &value.kind {
            ExprKind::Name(name) => form.outputs.iter().position(|output| output == name),
            _ => None,
        };
        let Some(port) = result else {
            let known: Vec<String> = form.outputs.iter().map(|output| format!("`{output}`")).collect();
            self.diags
                .error(Code::E0404, value.span, format!("`until` names no result of `{}`", form.name))
                .help(format!("its results are {}", known.join(", ")));
            return None;
        };
        let Some((_, most)) = own.iter().find(|(name, _)| name.value == "most") else {
            self.diags
                .error(Code::E0404, name.span, "`until` needs `most`, the largest number of calls")
                .help("write `most=1000`: a loop whose condition never holds ends there");
            return None;
        };
        match self.constants().int(most) {
            Some(n @ 1..=MAX_TRIPS) => Some(Until { port, most: n as usize }),
            _ => {
                self.diags
                    .error(Code::E0108, most.span, "`most` must be a whole number from 1 on")
                    .help("it is the largest number of calls");
                None
            }
        }
    }

    fn expect_until(&mut self, most: &Spanned<String>, own: &[Setting]) -> Option<()> {
        let found = own.iter().any(|(name, _)| name.value == "until");
        if !found {
            self.diags
                .error(Code::E0404, most.span, "`most` stands beside `until` only")
                .help("`until=done, most=300` calls a function until its result `done` is true");
        }
        found.then_some(())
    }

    /// `keep=sqrt` beside `over`: the backward pass keeps what positions hand on at about √n of n positions.
    fn keep(&mut self, name: &Spanned<String>, value: &Expr, own: &[Setting]) -> Option<Keep> {
        if !own.iter().any(|(name, _)| name.value == "over") {
            self.diags
                .error(Code::E0404, name.span, "`keep` stands beside `over` only")
                .help("`recompute=true` keeps no activations of a call for the backward pass");
            return None;
        }
        let word = self.constants().word(value);
        match word.as_deref() {
            Some("all") => Some(Keep::All),
            Some("sqrt") => Some(Keep::Sqrt),
            _ => {
                self.diags
                    .error(Code::E0108, value.span, "`keep` must be `all` or `sqrt`")
                    .help("with `sqrt`, the backward pass keeps less and computes each position twice");
                None
            }
        }
    }

    fn repeat(&mut self, value: &Expr) -> Option<usize> {
        match self.constants().int(value) {
            Some(n @ 1..=MAX_REPEAT) => Some(n as usize),
            Some(n) => {
                let message = format!("`repeat` cannot be {n}");
                self.diags.error(Code::E0015, value.span, message).help(format!("it is 1 to {MAX_REPEAT}"));
                None
            }
            None => {
                self.diags
                    .error(Code::E0108, value.span, "`repeat` must be a whole number")
                    .help("write a number, an extent or a setting");
                None
            }
        }
    }

    fn axis(&mut self, value: &Expr) -> Option<i64> {
        let axis = self.constants().int(value);
        if axis.is_none() {
            self.diags
                .error(Code::E0108, value.span, "`over` must be a whole number")
                .help("it is the axis of the sequence, negative from the end");
        }
        axis
    }

    fn truth(&mut self, setting: &str, value: &Expr, help: &str) -> Option<bool> {
        let truth = self.constants().truth(value);
        if truth.is_none() {
            let message = format!("`{setting}` must be `true` or `false`");
            self.diags.error(Code::E0108, value.span, message).help(help);
        }
        truth
    }

    /// Writes a function out for each position of its sequence. The results of a position are the first operands of the
    /// next, the sequence follows them, and further operands stay. The results are those of all positions.
    pub(super) fn write_over(
        &mut self,
        (call, axis): (&FunctionCall, i64),
        place: &Place,
        mut inputs: Vec<Value>,
        span: Span,
    ) -> Option<Result<Vec<Value>, TypeIssue>> {
        let n_carried = call.function.form.outputs.len();
        let (axis, n) = match self.positions(&inputs, n_carried, axis) {
            Ok(found) => found,
            Err(issue) => return Some(Err(issue)),
        };
        if n > MOST_UNROLLED && !(call.manner.unroll && n <= MAX_REPEAT as usize) {
            return Some(self.write_loop(
                call,
                place,
                inputs,
                (Trips::Over { axis: axis as usize, n }, span),
            ));
        }
        let sequence = inputs[n_carried];
        let length = if call.manner.keep == Keep::Sqrt { Keep::chunk_of(n) } else { n };
        let mut chunk = (place.path.clone(), self.builder.graph.nodes.len());
        let mut steps: Vec<Vec<Value>> = vec![vec![]; n_carried];
        for position in 0..n {
            self.builder.set_scope(&place.path, Some(span));
            let path = self.builder.fresh_name();
            let place = Place { path, owner: place.owner.clone() };
            if position % length == 0 {
                chunk = (place.path.clone(), self.builder.graph.nodes.len());
            }
            self.builder.set_scope(&place.path, Some(span));
            let attrs = [("axis", Attr::from(axis)), ("index", Attr::from(position as i64))];
            inputs[n_carried] = self.by_op("select", &[sequence], attrs, span)?;
            let first = self.builder.graph.nodes.len();
            let results = match self.write_copy(call, &place, &inputs, span) {
                Ok(results) => results,
                Err(issue) => return Some(Err(issue)),
            };
            let expect = |&value: &Value| expect_stackable(self.builder.ty(value), axis as usize);
            if let Err(issue) = results.iter().try_for_each(expect) {
                return Some(Err(issue));
            }
            let names = self.result_names(&call.function.form.outputs, &place.path, 0);
            for (at, (value, name)) in results.into_iter().zip(&names).enumerate() {
                inputs[at] = self.bear(value, name, first);
                steps[at].push(inputs[at]);
            }
            let is_end = length < n && (position + 1 == n || (position + 1) % length == 0);
            self.written
                .recomputed
                .extend(is_end.then(|| (chunk.0.clone(), chunk.1..self.builder.graph.nodes.len())));
        }
        self.builder.set_scope(&place.path, Some(span));
        let stacked: Option<Vec<Value>> =
            steps.into_iter().map(|values| self.stacked(values, axis, span)).collect();
        Some(Ok(stacked?))
    }

    /// The axis of a sequence, counted from the front, and its extent.
    fn positions(&self, inputs: &[Value], n_carried: usize, axis: i64) -> Result<(i64, usize), TypeIssue> {
        let Some(&sequence) = inputs.get(n_carried) else {
            let issue = TypeIssue::new(format!("`over` needs a sequence as operand {}", n_carried + 1));
            return Err(
                issue.help("it follows the operands that are handed on, as many as there are results")
            );
        };
        let ty = self.builder.ty(sequence);
        let axis = ty.axis(axis)?;
        match ty.shape[axis] {
            Dim::Fixed(n @ 1..) if n as i64 <= MAX_TRIPS => Ok((axis as i64, n)),
            _ => Err(TypeIssue::new(format!("`over` visits axis {axis} of {ty}"))
                .at(n_carried, format!("this is {ty}"))
                .help("the extent of the axis is a number from 1 on")),
        }
    }

    /// Tensors side by side along a new axis.
    fn stacked(&mut self, values: Vec<Value>, axis: i64, span: Span) -> Option<Value> {
        let along = [("axis", Attr::from(axis))];
        let parts = values.chunks(MAX_JOINED).map(|part| self.by_op("stack", part, along.clone(), span));
        let mut parts: Vec<Value> = parts.collect::<Option<_>>()?;
        while parts.len() > 1 {
            let joined = parts.chunks(MAX_JOINED).map(|part| self.by_op("concat", part, along.clone(), span));
            parts = joined.collect::<Option<_>>()?;
        }
        parts.pop()
    }

    fn by_op<const N: usize>(
        &mut self,
        op: &str,
        operands: &[Value],
        attrs: [(&str, Attr); N],
        span: Span,
    ) -> Option<Value> {
        let Some(form) = self.builder.registry().op(op) else {
            report_unknown_op(self.builder.registry(), &Spanned::new(span, op), self.diags);
            return None;
        };
        let given = attrs.into_iter().fold(Attrs::default(), |attrs, (name, attr)| attrs.with(name, attr));
        let attrs = form.fill_attrs(given);
        let operands: Vec<_> =
            operands.iter().map(|&value| Spanned::new(span, Operand::Value(value))).collect();
        self.apply(form, &operands, (attrs, &[]), span, None).map(|results| results[0])
    }

    /// Notes the nodes from `first` on as those of a call that the backward pass recomputes.
    pub(super) fn note_recomputed(&mut self, call: &FunctionCall, path: &Symbol, first: usize) {
        if call.manner.recompute {
            let nodes = first..self.builder.graph.nodes.len();
            self.written.recomputed.push((path.clone(), nodes));
        }
    }
}
