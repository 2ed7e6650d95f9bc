//! The comparison of devices as text, or as a page in Markdown.

use std::collections::BTreeSet;
use std::env;
use std::sync::Arc;
use std::thread::available_parallelism;

use engine_core::compile::Options;
use engine_core::ir::DType;
use engine_runtime::device::Device;

use super::difference::Difference;
use crate::devices::Choice;

/// A compared device, its name on the command line, and the compiler settings for it.
pub(super) struct Peer {
    pub(super) choice: Choice,
    pub(super) device: Arc<dyn Device>,
    pub(super) options: Options,
}

impl Peer {
    pub(super) fn name(&self) -> String {
        self.choice.to_string()
    }
}

/// An op or a kernel.
pub(super) struct Row {
    /// Its name.
    pub(super) name: String,
    /// Types of the results.
    pub(super) dtypes: BTreeSet<DType>,
    /// The number of elements that the first device has computed.
    pub(super) n: usize,
    /// Why that number is zero.
    pub(super) note: Option<String>,
    /// The differences of the other devices.
    pub(super) cells: Vec<Difference>,
}

impl Row {
    fn texts(&self, peers: &[Peer]) -> Vec<String> {
        let dtypes: Vec<String> = self.dtypes.iter().map(ToString::to_string).collect();
        let mut texts = vec![self.name.clone(), dtypes.join(", "), self.n.to_string()];
        match &self.note {
            Some(note) if self.n == 0 => texts.push(format!("not compared: {note}")),
            _ => texts.extend(self.cells.iter().zip(&peers[1..]).map(|(cell, peer)| cell.text(&peer.name()))),
        }
        texts
    }
}

/// Rows under a title, as aligned text.
pub(super) fn text(title: &str, peers: &[Peer], rows: &[Row]) -> String {
    let line = |texts: &[String]| {
        let cells = texts[3..].iter().map(|text| format!("{text:<28}"));
        let line = format!("{:<28} {:<10} {:>9}  ", texts[0], texts[1], texts[2]);
        (line + &cells.collect::<Vec<_>>().join(" ")).trim_end().to_string()
    };
    let lines = rows.iter().map(|row| line(&row.texts(peers)));
    let head = line(&heads(peers));
    [title.to_string(), head].into_iter().chain(lines).collect::<Vec<_>>().join("\n")
}

/// Rows under a title, as a table in Markdown.
pub(super) fn markdown(title: &str, peers: &[Peer], rows: &[Row]) -> String {
    let line = |texts: &[String]| {
        let cells: Vec<String> = texts.iter().map(|text| text.replace('|', "\\|")).collect();
        format!("| {} |", cells.join(" | "))
    };
    let rule = format!("|---|---|--:|{}", "---|".repeat(peers.len() - 1));
    let lines = rows.iter().map(|row| line(&row.texts(peers)));
    let head = [format!("\n## {title}\n"), line(&heads(peers)), rule];
    head.into_iter().chain(lines).collect::<Vec<_>>().join("\n")
}

fn heads(peers: &[Peer]) -> Vec<String> {
    let first = ["name", "type", "elements"].map(String::from);
    first.into_iter().chain(peers[1..].iter().map(Peer::name)).collect()
}

/// The head of the page: its meaning, the command that makes it, and the machine and devices of its figures.
pub(super) fn head(peers: &[Peer]) -> String {
    let words: Vec<String> = env::args_os().skip(1).map(|word| word.to_string_lossy().into()).collect();
    let devices: Vec<String> = peers.iter().map(|peer| format!("- {}", described(peer))).collect();
    let (first, devices, command) = (peers[0].name(), devices.join("\n"), words.join(" "));
    format!(
        "# Parity of devices

How far the results of devices are from those of `{first}` where all compute the same on the same operands. Made by

    engine {command}

The figures are of this machine and these devices, and of no others:

- machine: {}
{devices}

A row is an op, at its examples and at larger operands, or a kernel of a graph; operands are random numbers, zeros, large
and tiny numbers, infinities and NaN. Differences are the largest of all elements, in units in the last place (ULP) of
the result's type, and in parentheses the largest relative to the largest magnitude of its result: where terms cancel,
many ULP are little. \"same bits\" is no difference at all, \"0 ULP\" one in the sign of a zero or the bits of a NaN.
Integers, truth values and uniform random numbers must be the same bits; an op that chooses by rounded numbers, as a draw
from logits does, may choose otherwise where two are all but equal. Where two devices differ by more than the tolerance,
both are compared with the interpreter in double precision; \"both right\" is said of results within its tolerance.",
        machine()
    )
}

fn machine() -> String {
    let threads = available_parallelism().map_or("not known".to_string(), |n| n.to_string());
    format!("{}, {}, CPU threads: {threads}", env::consts::OS, env::consts::ARCH)
}

fn described(peer: &Peer) -> String {
    let info = peer.device.info();
    let details: Vec<String> = info.details.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    format!("`{}`: {}; {}", peer.name(), info.name, details.join(", "))
}
