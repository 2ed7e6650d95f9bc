//! Mixed precision, as a user asks for it.

use super::*;

/// 1 + 2⁻¹⁰ is 1 in bf16, so that results show in which type a product was computed.
const SUM: &str = r#"(
  precision: Bf16,
  inputs: {"x": "f32[B, 2]"},
  nodes: [{"w": "ones(shape=[2, 1])", "y": "sum(x @ w, axis=1)"}, (name: "z", expr: "sum(x @ w, axis=1)", precision: F32)],
  stages: {
    "half": Run(outputs: ["y", "z"], dims: {"B": 1}, inputs: {"x": [[1.0009765625, 2.0]]}),
    "exact": Run(outputs: {"exact": "y"}, dims: {"B": 1}, inputs: {"x": [[1.0009765625, 2.0]]}, precision: F32),
    "ask": Predict(batch: 4, outputs: ["y"]),
  },
)"#;

fn desk() -> Desk {
    let desk = Desk::new();
    desk.write("sum.ron", SUM);
    desk.write("x.csv", "1.0009765625,2\n4,2\n");
    desk
}

#[test]
fn stages_and_nodes_choose_their_precision() {
    let desk = desk();
    let ran = desk.engine(&["run", "sum.ron", "--device", "cpu", "--report", "report.json"]);
    assert_eq!(ran.code, 0, "{}", ran.errors);
    let report: Value = serde_json::from_str(&fs::read_to_string(desk.path("report.json")).unwrap()).unwrap();
    let of = |name: &str| report["outputs"][name]["values"][0].as_f64();
    assert_eq!([of("y"), of("z"), of("exact")], [Some(3.0), Some(3.0009765625), Some(3.0009765625)]);

    let ask = |more: &[&str]| {
        let words = ["predict", "sum.ron", "--device", "cpu", "--input", "x.csv"];
        desk.engine(&[&words[..], more].concat())
    };
    assert_eq!(ask(&[]).results, "y\n3\n6\n");
    assert_eq!(ask(&["--set", "precision=F32"]).results, "y\n3.0009766\n6\n");
}

#[test]
fn each_cast_names_the_rule_that_made_it() {
    let explained = desk().engine(&["explain", "sum.ron", "--stage", "precision"]);
    let rule = "x: f32 -> bf16 for y: operands of a matmul are rounded, its sums are f32\n";
    assert_eq!(
        (explained.code, explained.results.matches("-> bf16").count()),
        (0, 4),
        "{}",
        explained.results
    );
    assert!(explained.results.contains(rule), "{}", explained.results);
}

/// 600 gradients of 1 meet in one row. In bf16, 256 + 1 is 256.
#[test]
fn gradients_that_meet_in_a_row_are_added_in_f32() {
    let desk = Desk::new();
    desk.write(
        "rows.ron",
        r#"(
          inputs: {"x": "bf16[3, 2]"},
          nodes: {"rows": "index_select(x, zeros(shape=[600], dtype=i32), axis=0)", "loss": "sum(cast(rows, dtype=f32))"},
          stages: {"go": Run(outputs: ["d.x"], loss: "loss", inputs: {"x": [[1, 2], [3, 4], [5, 6]]})},
        )"#,
    );
    let ran = desk.engine(&["run", "rows.ron", "--device", "cpu", "--report", "report.json"]);
    assert_eq!(ran.code, 0, "{}", ran.errors);
    let report: Value = serde_json::from_str(&fs::read_to_string(desk.path("report.json")).unwrap()).unwrap();
    assert_eq!(report["outputs"]["d.x"]["values"], serde_json::json!([600.0, 600.0, 0.0, 0.0, 0.0, 0.0]));
}

#[test]
fn wrong_precisions_are_refused() {
    for (precision, why) in [
        ("Bf17", "error[E0014]: `precision` cannot be `Bf17`"),
        ("F16(loss_scale: 3)", "error[E0015]: `loss_scale` cannot be 3"),
        ("Bf16(loss_scale: 2)", "has no field `loss_scale`"),
    ] {
        let refused = desk().engine(&["check", "sum.ron", "--set", &format!("precision={precision}")]);
        assert!(refused.code == 1 && refused.errors.contains(why), "{}", refused.errors);
    }
}
