use super::*;
use crate::diag::{Look, Sources};
use crate::front::parse_ron;
use expect_test::{Expect, expect};

fn check(text: &str, expected: Expect) {
    expected.assert_eq(&stage_and_faults(text));
}

/// Reads a stage and shows what was read and what is wrong.
fn stage_and_faults(text: &str) -> String {
    let (mut sources, mut diags) = (Sources::new(), Diagnostics::new());
    let file = sources.add("stage.ron", text);
    let value = parse_ron(file, text, &mut diags);
    let stage = read_stage(&value, &mut diags).map_or("nothing".into(), |stage| format!("{stage:?}"));
    format!("{stage}\n{}", diags.render(&sources, Look::Plain))
}

type Stage = (Option<String>, Option<u32>, Option<f64>, Option<bool>);

fn read_stage(value: &Ron, diags: &mut Diagnostics) -> Option<Stage> {
    let mut fields = Fields::of(value, "a training stage", diags)?;
    let loss = fields.required("loss").and_then(|v| v.string("`loss`", diags)).map(|text| text.to_string());
    let batch = fields.required("batch").and_then(|v| v.integer("`batch`", 1..=65536, diags));
    let clip = fields.optional("clip_norm").and_then(|v| v.number("`clip_norm`", diags));
    let policies = [("Drop", true), ("Short", false)];
    let drop_last = fields.optional("last_batch").and_then(|v| v.choice("`last_batch`", &policies, diags));
    fields.finish(diags);
    Some((loss, batch, clip, drop_last))
}

#[test]
fn a_group_a_named_group_and_a_map_read_alike() {
    let group = "(loss: \"ce\", batch: 128, last_batch: Drop, clip_norm: None)";
    check(
        group,
        expect![[r#"
        (Some("ce"), Some(128), None, Some(true))
    "#]],
    );
    for other in [
        "Train(loss: Some(\"ce\"), batch: 128, last_batch: Drop)",
        "{\"loss\": \"ce\", \"batch\": 128, \"last_batch\": \"Drop\"}",
    ] {
        assert_eq!(stage_and_faults(other), stage_and_faults(group));
    }
    check(
        "(loss: \"ce\", batch: 128, clip_norm: Some(1))",
        expect![[r#"
        (Some("ce"), Some(128), Some(1.0), None)
    "#]],
    );
}

#[test]
fn a_number_without_a_fraction_is_whole() {
    assert_eq!(stage_and_faults("(loss: \"ce\", batch: 1e3)"), "(Some(\"ce\"), Some(1000), None, None)\n");
    for other in ["0.5", "inf", "NaN", "1e300"] {
        let said = stage_and_faults(&format!("(loss: \"ce\", batch: {other})"));
        assert!(said.contains("`batch` must be a whole number, not a number"), "{said}");
    }
}

#[test]
fn unknown_missing_and_repeated_fields() {
    check(
        "(los: \"ce\", batch: 128, bacth: 64, epochs: 3, batch: 1)",
        expect![[r#"
        (None, Some(128), None, None)
        error[E0012]: a training stage has no field `los`
          ┌─ stage.ron:1:2
          │
        1 │ (los: "ce", batch: 128, bacth: 64, epochs: 3, batch: 1)
          │  ^^^
          │
          = help: did you mean `loss`?

        error[E0012]: a training stage has no field `bacth`
          ┌─ stage.ron:1:25
          │
        1 │ (los: "ce", batch: 128, bacth: 64, epochs: 3, batch: 1)
          │                         ^^^^^
          │
          = help: did you mean `batch`?

        error[E0012]: a training stage has no field `epochs`
          ┌─ stage.ron:1:36
          │
        1 │ (los: "ce", batch: 128, bacth: 64, epochs: 3, batch: 1)
          │                                    ^^^^^^
          │
          = help: known are `loss`, `batch`, `clip_norm`, `last_batch`

        error[E0013]: `batch` is given twice
          ┌─ stage.ron:1:47
          │
        1 │ (los: "ce", batch: 128, bacth: 64, epochs: 3, batch: 1)
          │             -----                             ^^^^^
          │             │
          │             first here
    "#]],
    );
    check(
        "(batch: 128)",
        expect![[r#"
        (None, Some(128), None, None)
        error[E0011]: a training stage needs the field `loss`
          ┌─ stage.ron:1:1
          │
        1 │ (batch: 128)
          │ ^^^^^^^^^^^^
          │
          = help: add `loss: …`
    "#]],
    );
    check(
        "()",
        expect![[r#"
        (None, None, None, None)
        error[E0011]: a training stage needs the field `loss`
          ┌─ stage.ron:1:1
          │
        1 │ ()
          │ ^^
          │
          = help: add `loss: …`

        error[E0011]: a training stage needs the field `batch`
          ┌─ stage.ron:1:1
          │
        1 │ ()
          │ ^^
          │
          = help: add `batch: …`
    "#]],
    );
}

#[test]
fn wrong_kinds_and_choices() {
    check(
        "(loss: ce, batch: \"128\", clip_norm: [1], last_batch: Shrot)",
        expect![[r#"
            (None, None, None, None)
            error[E0010]: `loss` must be a string, not a word
              ┌─ stage.ron:1:8
              │
            1 │ (loss: ce, batch: "128", clip_norm: [1], last_batch: Shrot)
              │        ^^
              │
              = help: put it in quotes: "ce"

            error[E0010]: `batch` must be a whole number, not a string
              ┌─ stage.ron:1:19
              │
            1 │ (loss: ce, batch: "128", clip_norm: [1], last_batch: Shrot)
              │                   ^^^^^

            error[E0010]: `clip_norm` must be a number, not a list
              ┌─ stage.ron:1:37
              │
            1 │ (loss: ce, batch: "128", clip_norm: [1], last_batch: Shrot)
              │                                     ^^^

            error[E0014]: `last_batch` cannot be `Shrot`
              ┌─ stage.ron:1:54
              │
            1 │ (loss: ce, batch: "128", clip_norm: [1], last_batch: Shrot)
              │                                                      ^^^^^
              │
              = help: did you mean `Short`?
        "#]],
    );
    check(
        "(loss: \"ce\", batch: 0, last_batch: 3)",
        expect![[r#"
        (Some("ce"), None, None, None)
        error[E0015]: `batch` cannot be 0
          ┌─ stage.ron:1:21
          │
        1 │ (loss: "ce", batch: 0, last_batch: 3)
          │                     ^
          │
          = help: it lies between 1 and 65536

        error[E0010]: `last_batch` must be a name, not a whole number
          ┌─ stage.ron:1:36
          │
        1 │ (loss: "ce", batch: 0, last_batch: 3)
          │                                    ^
    "#]],
    );
    check(
        "(loss: \"ce\", batch: 99999999999999999999)",
        expect![[r#"
        (Some("ce"), None, None, None)
        error[E0015]: `batch` cannot be 99999999999999999999
          ┌─ stage.ron:1:21
          │
        1 │ (loss: "ce", batch: 99999999999999999999)
          │                     ^^^^^^^^^^^^^^^^^^^^
          │
          = help: it lies between 1 and 65536
    "#]],
    );
    check(
        "[1, 2]",
        expect![[r#"
        nothing
        error[E0010]: a training stage must be written as fields, `(name: value, …)`, not a list
          ┌─ stage.ron:1:1
          │
        1 │ [1, 2]
          │ ^^^^^^
    "#]],
    );
}

#[test]
fn what_could_not_be_parsed_is_reported_once() {
    check(
        "(loss: %, batch: 128)",
        expect![[r#"
        (None, Some(128), None, None)
        error[E0002]: expected a value, found `%`
          ┌─ stage.ron:1:8
          │
        1 │ (loss: %, batch: 128)
          │        ^
    "#]],
    );
}
