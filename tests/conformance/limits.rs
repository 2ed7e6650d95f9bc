//! The table of limits, known differences and ops without a peer: `tests/conformance/table.json`.

use super::fixtures::{list, read, text};
use engine::core::ir::DType;
use serde_json::Value as Json;

/// The largest error of some ops in some types, in units in the last place.
pub struct Limit {
    pub ops: Vec<String>,
    /// The types that it holds for; empty for all.
    pub types: Vec<DType>,
    pub forward: f64,
    pub gradient: f64,
    pub why: String,
}

/// What is known beside the figures.
pub struct Table {
    /// The limit of all other ops.
    pub default: Limit,
    pub limits: Vec<Limit>,
    /// Results that differ from the peer's on purpose, by op; the cases leave them out.
    pub differences: Vec<(String, String)>,
    /// Ops that no peer computes, with the reason.
    pub without_peer: Vec<(Vec<String>, String)>,
}

impl Table {
    pub fn read() -> Table {
        let json: Json = serde_json::from_str(&read("tests/conformance/table.json")).unwrap();
        let difference = |json: &Json| (text(&json["op"]), text(&json["what"]));
        let alone = |json: &Json| (texts(&json["ops"]), text(&json["why"]));
        Table {
            default: limit(&json["default"]),
            limits: list(&json["limits"]).iter().map(limit).collect(),
            differences: list(&json["differences"]).iter().map(difference).collect(),
            without_peer: list(&json["without_peer"]).iter().map(alone).collect(),
        }
    }

    /// The first limit that names the op and the type.
    pub fn limit(&self, op: &str, dtype: DType) -> &Limit {
        let is_meant = |limit: &&Limit| {
            limit.ops.iter().any(|name| name == op)
                && (limit.types.is_empty() || limit.types.contains(&dtype))
        };
        self.limits.iter().find(is_meant).unwrap_or(&self.default)
    }
}

fn limit(json: &Json) -> Limit {
    Limit {
        ops: texts(&json["ops"]),
        types: texts(&json["types"]).iter().map(|name| DType::from_name(name).unwrap()).collect(),
        forward: json["forward"].as_f64().unwrap(),
        gradient: json["gradient"].as_f64().unwrap(),
        why: text(&json["why"]),
    }
}

fn texts(json: &Json) -> Vec<String> {
    list(json).iter().map(text).collect()
}
