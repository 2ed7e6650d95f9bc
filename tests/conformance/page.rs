//! `docs/conformance.md`: the largest errors, rounded up to powers of two so that machines agree.

use super::limits::{Limit, Table};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The largest errors of an op in a type on a device: forward, and of gradients if there are any.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figure {
    pub forward: f64,
    pub gradient: Option<f64>,
}

impl Figure {
    pub fn include(&mut self, other: Figure) {
        self.forward = self.forward.max(other.forward);
        self.gradient = match (self.gradient, other.gradient) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (a, b) => a.or(b),
        };
    }

    fn text(self) -> String {
        let gradient = self.gradient.map_or("–".to_string(), |x| format!("{}", step(x)));
        format!("{} / {gradient}", step(self.forward))
    }

    fn parse(cell: &str) -> Option<Figure> {
        let (forward, gradient) = cell.split_once(" / ")?;
        Some(Figure { forward: forward.parse().ok()?, gradient: gradient.parse().ok() })
    }
}

/// The error as 0, 0.5 (the rounding of the exact result), 1, 2, 4, ...
pub fn step(error: f64) -> f64 {
    match error {
        0.0 => 0.0,
        // The peer's own rounding, in double precision.
        _ if error <= 0.5 + 1e-6 => 0.5,
        _ => 2f64.powi(error.log2().ceil() as i32),
    }
}

/// What is known of an op: its peer, the number of cases, and figures by type and device.
pub struct Row {
    pub op: String,
    pub peer: String,
    pub n_cases: usize,
    pub figures: BTreeMap<String, BTreeMap<String, Figure>>,
}

/// The figures of the page by op, type and device.
pub type Documented = BTreeMap<(String, String, String), Figure>;

const INTRODUCTION: &str = include_str!("introduction.md");

/// The figures of a page that was written before.
pub fn parse(page: &str) -> Documented {
    let mut documented = Documented::new();
    let mut devices: Vec<String> = vec![];
    for line in page.lines() {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        match cells[..] {
            ["op", "peer", "cases", "types", ref rest @ ..] => {
                devices = rest.iter().map(ToString::to_string).collect();
            }
            [op, _, _, types, ref rest @ ..] if op.starts_with('`') && rest.len() == devices.len() => {
                for (ty, (device, cell)) in
                    types.split(", ").flat_map(|ty| devices.iter().zip(rest).map(move |it| (ty, it)))
                {
                    let key = (op.trim_matches('`').to_string(), ty.to_string(), device.clone());
                    documented.extend(Figure::parse(cell).map(|figure| (key, figure)));
                }
            }
            _ => {}
        }
    }
    documented
}

/// The page. Figures of devices that are absent here are those of `before`.
pub fn page(rows: &[Row], table: &Table, before: &Documented) -> String {
    let here = rows.iter().flat_map(|row| row.figures.values()).flat_map(BTreeMap::keys);
    let known: BTreeSet<&str> = here.chain(before.keys().map(|key| &key.2)).map(String::as_str).collect();
    let devices: Vec<&str> = ["cpu", "cuda", "wgpu", "wgpu:software"]
        .into_iter()
        .filter(|device| known.contains(device))
        .collect();
    let heads: String = devices.iter().map(|device| format!(" {device} |")).collect();
    let lines = "---|".repeat(devices.len());
    let mut text = format!(
        "{INTRODUCTION}## Errors\n\n| op | peer | cases | types |{heads}\n|---|---|--:|---|{lines}\n"
    );
    rows.iter().for_each(|row| text += &lines_of(row, &devices, before));
    text + &tables(table)
}

/// The lines of an op. Types with equal figures share one.
fn lines_of(row: &Row, devices: &[&str], before: &Documented) -> String {
    let mut groups: Vec<(Vec<&str>, Vec<String>)> = vec![];
    for (ty, figures) in &row.figures {
        let cells = devices.iter().map(|&device| {
            let key = (row.op.clone(), ty.clone(), device.to_string());
            let figure = figures.get(device).or_else(|| before.get(&key));
            figure.map_or("–".to_string(), |figure| figure.text())
        });
        let cells: Vec<String> = cells.collect();
        match groups.iter_mut().find(|(_, known)| *known == cells) {
            Some((types, _)) => types.push(ty),
            None => groups.push((vec![ty], cells)),
        }
    }
    let line = |(types, cells): (Vec<&str>, Vec<String>)| {
        let (types, cells) = (types.join(", "), cells.join(" | "));
        format!("| `{}` | {} | {} | {types} | {cells} |\n", row.op, row.peer, row.n_cases)
    };
    groups.into_iter().map(line).collect()
}

fn tables(table: &Table) -> String {
    let named = |ops: &[String]| ops.iter().map(|op| format!("`{op}`")).collect::<Vec<_>>().join(", ");
    let mut text =
        "\n## Limits above the default\n\n| op | types | forward | gradient | reason |\n|---|---|--:|--:|---|\n".to_string();
    for Limit { ops, types, forward, gradient, why } in &table.limits {
        let types: Vec<String> = types.iter().map(ToString::to_string).collect();
        let types = if types.is_empty() { "all".to_string() } else { types.join(", ") };
        _ = writeln!(text, "| {} | {types} | {forward} | {gradient} | {why} |", named(ops));
    }
    text += "\n## Differences\n\n| op | difference |\n|---|---|\n";
    table.differences.iter().for_each(|(op, what)| _ = writeln!(text, "| {op} | {what} |"));
    text += "\n## Ops without a peer\n\n| op | reason |\n|---|---|\n";
    table.without_peer.iter().for_each(|(ops, why)| _ = writeln!(text, "| {} | {why} |", named(ops)));
    text
}

#[test]
fn a_page_keeps_figures_of_devices_that_are_absent() {
    let figure = |forward, gradient| Figure { forward, gradient };
    let row = |device: &str, figure| Row {
        op: "exp".into(),
        peer: "torch.exp".into(),
        n_cases: 1,
        figures: BTreeMap::from([("f32".to_string(), BTreeMap::from([(device.to_string(), figure)]))]),
    };
    let table = Table::read();
    let before = parse(&page(&[row("cuda", figure(1.7, Some(0.3)))], &table, &Documented::new()));
    let after = parse(&page(&[row("cpu", figure(0.0, None))], &table, &before));
    let key = |device: &str| ("exp".to_string(), "f32".to_string(), device.to_string());
    assert_eq!(after[&key("cuda")], figure(2.0, Some(0.5)));
    assert_eq!(after[&key("cpu")], figure(0.0, None));
}
