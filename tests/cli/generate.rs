//! `Generate` stages.

use super::*;

/// A model of bytes by which each byte is followed by the next one.
fn counting(settings: &str) -> String {
    format!(
        r#"(
      inputs: {{"token": "u8[B, 8]"}},
      nodes: {{
        "next": "cast(token, dtype=i32) + 1",
        "logits": "one_hot(next, classes=256) * 50.0",
      }},
      stages: {{"write": Generate(tokens: "token", logits: "logits", {settings})}},
    )"#
    )
}

fn generated(settings: &str) -> Ended {
    let desk = Desk::new();
    desk.write("count.ron", counting(settings));
    desk.engine(&["run", "count.ron", "--device", "cpu"])
}

#[test]
fn a_text_goes_on_beyond_the_window_of_the_model() {
    let ended = generated(r#"prompt: "ab", length: 12, temperature: 0"#);
    assert_eq!((ended.code, &*ended.results), (0, "abcdefghijklmn\n"), "{}", ended.errors);
    // The other classes have a probability of e⁻⁵⁰.
    let drawn = generated(r#"prompt: "ab", length: 12"#);
    assert_eq!(drawn.results, ended.results);
}

#[test]
fn a_text_ends_with_its_stop_and_goes_to_a_file() {
    let desk = Desk::new();
    desk.write("count.ron", counting(r#"prompt: "W", length: 99, top_k: 1, stop: "Z", write: "text.txt""#));
    let ended = desk.engine(&["run", "count.ron", "--device", "cpu", "--report", "report.json"]);
    assert_eq!((ended.code, &*ended.results), (0, "WXYZ\n"), "{}", ended.errors);
    assert_eq!(fs::read_to_string(desk.path("text.txt")).unwrap(), "WXYZ");
    let report: Value = serde_json::from_str(&fs::read_to_string(desk.path("report.json")).unwrap()).unwrap();
    let stage = &report["stages"][0];
    assert_eq!((stage["text"].as_str(), stage["steps"].as_u64()), (Some("WXYZ"), Some(3)));
}

#[test]
fn models_that_are_none_of_these_tokens_are_refused() {
    for (settings, why) in [
        (r#"prompt: """#, "the prompt is empty"),
        (r#"tokenizer: "t.json""#, "`token: u8[B, 8]` cannot hold the tokens of a tokenizer"),
        (r#"top_p: 0.0"#, "`top_p` cannot be 0"),
    ] {
        let ended = generated(settings);
        assert!(ended.code != 0 && ended.errors.contains(why), "{settings}: {}", ended.errors);
    }
    let desk = Desk::new();
    desk.write(
        "flat.ron",
        counting("length: 1")
            .replace("one_hot(next, classes=256) * 50.0", "mean(cast(next, dtype=f32), axis=1)"),
    );
    let ended = desk.engine(&["run", "flat.ron", "--device", "cpu"]);
    assert!(ended.errors.contains("which are no logits of `token: u8[B, 8]`"), "{}", ended.errors);
}
