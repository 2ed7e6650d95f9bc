//! Gradients among the outputs of a `Run` stage.

use super::reader::{Named, StageReader};
use crate::diag::{Code, Diagnostics, Spanned};
use crate::front::{Ron, RonKind};
use crate::text::Text;

/// The prefix of a gradient's name, before the name of the node.
const GRADIENT: &str = "d.";

impl StageReader<'_> {
    /// Nodes, and gradients of the loss: `["y", "d.w"]`, or `{"y": "y", "slope": "d.w"}`. Both as (name, node).
    pub(super) fn run_outputs(&mut self, value: &Ron, has_loss: bool) -> Option<(Vec<Named>, Vec<Named>)> {
        let is_gradient = |item: &Ron| self.gradient(item).is_some();
        let (nodes, gradients) = match &value.kind {
            RonKind::List(items) => {
                let (gradients, nodes) = items.iter().cloned().partition(is_gradient);
                (RonKind::List(nodes), RonKind::List(gradients))
            }
            RonKind::Map(entries) => {
                let (gradients, nodes) = entries.iter().cloned().partition(|(_, node)| is_gradient(node));
                (RonKind::Map(nodes), RonKind::Map(gradients))
            }
            RonKind::Struct { name, fields } => {
                let (gradients, nodes) = fields.iter().cloned().partition(|(_, node)| is_gradient(node));
                let group = |fields| RonKind::Struct { name: name.clone(), fields };
                (group(nodes), group(gradients))
            }
            _ => return self.outputs(value, "`outputs`").map(|nodes| (nodes, vec![])),
        };
        let [nodes, gradients] = [nodes, gradients].map(|kind| Ron { kind, span: value.span });
        let nodes = self.outputs(&nodes, "`outputs`");
        let gradients = self.gradients(&gradients, has_loss);
        nodes.zip(gradients)
    }

    fn gradients(&mut self, value: &Ron, has_loss: bool) -> Option<Vec<Named>> {
        let mut first = None;
        let named = self.named(value, "`outputs`", GRADIENT, |reader, item| {
            let node = reader.gradient(item)?;
            first.get_or_insert_with(|| item.clone());
            reader.value(&node)
        })?;
        if let Some(first) = first.filter(|_| !has_loss) {
            let message = "a gradient needs the field `loss`, which says what is differentiated";
            self.diags
                .error(Code::E0011, first.span, message)
                .help("add `loss: \"…\"`, a scalar node that depends on it");
            return None;
        }
        Some(named)
    }

    /// The node whose gradient is meant, at its place: `w` of `d.w`, unless a node itself is called `d.w`.
    fn gradient(&self, item: &Ron) -> Option<Ron> {
        let Spanned { span, value: word } = item.word("a node", &mut Diagnostics::new())?;
        let node = word.strip_prefix(GRADIENT).filter(|_| self.find(word).is_none())?;
        let start = (span.end as usize).saturating_sub(node.len());
        Some(Ron { span, kind: RonKind::Str(Text::verbatim(span.file, start, node)) })
    }
}
