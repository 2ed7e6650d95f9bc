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
    assert_eq!((stage["texts"][0].as_str(), stage["steps"].as_u64()), (Some("WXYZ"), Some(3)));
}

#[test]
fn models_that_are_none_of_these_tokens_are_refused() {
    for (settings, why) in [
        (r#"prompt: """#, "a prompt is empty"),
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

/// A model of two blocks whose parameters are random.
fn transformer(tokens: &str, settings: &str) -> String {
    format!(
        r#"(
      seed: 4,
      dims: {{"D": 32}},
      inputs: {{"token": "{tokens}"}},
      layers: {{"embed": "Embedding(rows=256, width=D)"}},
      nodes: {{
        "h": "TransformerBlock(embed(cast(token, dtype=i32)), heads=4, kv_heads=2, causal=true, rotary=true, repeat=2)",
        "logits": "Linear(LayerNorm(h), width=256, std=0.5)",
      }},
      stages: {{"write": Generate(tokens: "token", logits: "logits", {settings})}},
    )"#
    )
}

/// The texts of a pipeline.
fn texts(pipeline: String) -> Vec<String> {
    let desk = Desk::new();
    desk.write("t.ron", pipeline);
    let ended = desk.engine(&["run", "t.ron", "--device", "cpu", "--report", "report.json"]);
    assert_eq!(ended.code, 0, "{}", ended.errors);
    let report: Value = serde_json::from_str(&fs::read_to_string(desk.path("report.json")).unwrap()).unwrap();
    let texts = report["stages"][0]["texts"].as_array().unwrap().iter();
    texts.map(|text| text.as_str().unwrap().to_owned()).collect()
}

const LONG: &str = "a prompt of so many tokens that it takes steps of sixteen and single ones";

#[test]
fn a_cache_changes_no_token() {
    for (tokens, length) in [("u8[B, T]", 30), ("u8[1, 128]", 30), ("u8[B, 80]", 20)] {
        for prompt in ["x", LONG] {
            let settings = format!(r#"prompt: "{prompt}", length: {length}"#);
            let cached = texts(transformer(tokens, &settings));
            let plain = texts(transformer(tokens, &format!("{settings}, cache: false")));
            assert_eq!(cached, plain, "{tokens}");
            assert!(cached[0].starts_with(prompt) && cached[0].len() > prompt.len());
        }
    }
}

/// Indices of `topk` and `sort`, which are further results of ops of all tokens.
#[test]
fn a_cache_changes_no_token_of_a_model_with_indices() {
    let model = |settings: &str| {
        let text = transformer("u8[B, T]", &format!(r#"prompt: ["x", "{LONG}"], length: 20{settings}"#));
        text.replace(
            r#""logits": "Linear(LayerNorm(h), width=256, std=0.5)","#,
            r#""best": "topk(h, k=2)", "order": "sort(h)",
               "first": "slice(best.indices, axis=2, stop=1) + slice(order.indices, axis=2, stop=1)",
               "logits": "Linear(LayerNorm(h), width=256, std=0.5) * cast(first % 3 + 1, dtype=f32)","#,
        )
    };
    assert!(model("").contains("order.indices"));
    assert_eq!(texts(model("")), texts(model(", cache: false")));
}

/// The cache of 256 tokens gives way to one of 512 within the text.
#[test]
fn a_cache_that_grows_changes_no_token() {
    let prompt = "0123456789".repeat(25);
    let settings = format!(r#"prompt: ["{prompt}", "short"], length: 12"#);
    let grown = texts(transformer("u8[B, T]", &settings));
    assert_eq!(grown, texts(transformer("u8[B, T]", &format!("{settings}, cache: false"))));
    assert_eq!((grown[0].chars().count() > 250, grown[1].starts_with("short")), (true, true));
}

/// The cache of 256 tokens gives way to one of 300, which is the context, and then the window slides.
#[test]
fn a_cache_that_grows_to_the_context_gives_way_to_a_window() {
    let prompt = "0123456789".repeat(25);
    let settings = format!(r#"prompt: "{prompt}", length: 56, context: 300"#);
    let grown = texts(transformer("u8[B, T]", &settings));
    assert_eq!(grown, texts(transformer("u8[B, T]", &format!("{settings}, cache: false"))));
    assert!(grown[0].chars().count() > 300);
    let desk = Desk::new();
    desk.write("t.ron", transformer("u8[B, T]", &format!("{settings}, slide: false")));
    let ended = desk.engine(&["run", "t.ron", "--device", "cpu"]);
    let why = "a text of `write` has reached the 300 tokens that the model sees";
    assert!(ended.code != 0 && ended.errors.contains(why), "{}", ended.errors);
}

#[test]
fn texts_of_several_prompts_are_those_of_single_ones() {
    let settings = |prompt: &str| format!(r#"prompt: {prompt}, length: 20, temperature: 0"#);
    let together = texts(transformer("u8[B, T]", &settings(&format!(r#"["x", "{LONG}", "two"]"#))));
    for (text, prompt) in together.iter().zip(["x", LONG, "two"]) {
        assert_eq!(vec![text.clone()], texts(transformer("u8[B, T]", &settings(&format!("\"{prompt}\"")))));
    }
}

/// The next byte has the logit 1 + 2⁻¹⁰ and `A` has 1, which are one number in bf16; then the lower class comes first.
#[test]
fn a_stage_has_a_precision_of_its_own() {
    let text = r#"(
      inputs: {"token": "u8[B, 8]"},
      nodes: {
        "row": "arange(stop=256)",
        "next": "one_hot((row + 1) % 256, classes=256) * 1.0009765625",
        "table": "next + one_hot(row * 0 + 65, classes=256)",
        "logits": "one_hot(cast(token, dtype=i32), classes=256) @ table",
      },
      stages: {"write": Generate(tokens: "token", logits: "logits", prompt: "ab", length: 3, temperature: 0)},
    )"#;
    let desk = Desk::new();
    for (more, expected) in [("", "abcde\n"), (", precision: Bf16", "abAAA\n")] {
        for cache in ["", ", cache: false"] {
            desk.write("t.ron", text.replace(", temperature: 0", &format!(", temperature: 0{more}{cache}")));
            let ended = desk.engine(&["run", "t.ron", "--device", "cpu"]);
            assert_eq!((ended.code, &*ended.results), (0, expected), "{more}{cache}: {}", ended.errors);
        }
    }
}

/// A list takes the place of a text.
#[test]
fn prompts_are_set_on_the_command_line() {
    let desk = Desk::new();
    desk.write("t.ron", counting(r#"prompt: "a", length: 2, top_k: 1"#).replace("u8[B, 8]", "u8[2, 8]"));
    for (prompt, expected) in [("x y", "x yz{\n"), (r#"["a", "m"]"#, "abc\nmno\n"), ("[", "[\\]\n")] {
        let ended =
            desk.engine(&["run", "t.ron", "--device", "cpu", "--set", &format!("write.prompt={prompt}")]);
        assert_eq!((ended.code, &*ended.results), (0, expected), "{}", ended.errors);
    }
    let ended = desk.engine(&["run", "t.ron", "--device", "cpu", "--set", "write.stop=zzz"]);
    assert!(ended.errors.contains("put it in quotes: \"zzz\""), "{}", ended.errors);
}

/// The next byte has a probability of 0.6.
#[test]
fn the_fewest_tokens_of_a_probability_are_drawn_from() {
    let written = |settings: &str| {
        let desk = Desk::new();
        desk.write(
            "t.ron",
            counting(&format!(r#"prompt: "!", length: 60, {settings}"#)).replace("50.0", "5.9467"),
        );
        let ended = desk.engine(&["run", "t.ron", "--device", "cpu", "--report", "report.json"]);
        assert_eq!(ended.code, 0, "{}", ended.errors);
        ended.results
    };
    let following: String = (b'!'..=b'!' + 60).map(char::from).collect();
    assert_eq!(written("top_p: 0.59"), format!("{following}\n"));
    assert_ne!(written("top_p: 0.9"), format!("{following}\n"));
}

/// Classes behind the last token have the largest logits.
#[test]
fn classes_without_a_token_are_not_drawn() {
    let desk = Desk::new();
    desk.write("a.txt", "Some text to learn from. ".repeat(20));
    desk.write(
        "t.ron",
        r#"(
      data: {"text": (source: "text", file: "a.txt", context: 8)},
      inputs: {"token": (type: "u8[B, 8]", from: "text.input")},
      nodes: {
        "next": "cast(token, dtype=i32) + 1",
        "logits": "one_hot(next, classes=300) * 50.0 + cast(arange(stop=300) > 255, dtype=f32) * 99.0",
      },
      stages: {"write": Generate(tokens: "token", logits: "logits", prompt: "a", length: 4)},
    )"#,
    );
    let ended = desk.engine(&["run", "t.ron", "--device", "cpu", "--data-dir", "."]);
    assert_eq!((ended.code, &*ended.results), (0, "abcde\n"), "{}", ended.errors);
}

/// The window is full after the sixth byte of the text, and the run ends with an error; what was written stays.
#[test]
fn a_file_holds_the_text_as_it_grows() {
    let desk = Desk::new();
    let settings = r#"length: 12, top_k: 1, slide: false, prompt: ["ab"], write: "text.txt""#;
    desk.write("t.ron", counting(settings));
    let ended = desk.engine(&["run", "t.ron", "--device", "cpu"]);
    assert_eq!((ended.code != 0, &*ended.results), (true, "abcdefghi"), "{}", ended.errors);
    assert_eq!(fs::read_to_string(desk.path("text.txt")).unwrap(), "abcdefghi");
    // Of two texts, the first is done before the second is too long.
    let settings = settings.replace(r#"["ab"]"#, r#"["ab", "bc"], stop: "f""#).replace(".txt", ".jsonl");
    desk.write("t.ron", counting(&settings).replace("u8[B, 8]", "u8[2, 8]"));
    let ended = desk.engine(&["run", "t.ron", "--device", "cpu"]);
    assert_eq!((ended.code, &*ended.results), (0, "abcdef\nbcdef\n"), "{}", ended.errors);
    let settings = settings.replace("\"bc\"", "\"gh\"");
    desk.write("t.ron", counting(&settings).replace("u8[B, 8]", "u8[2, 8]"));
    let ended = desk.engine(&["run", "t.ron", "--device", "cpu"]);
    assert_eq!((ended.code != 0, &*ended.results), (true, "abcdef\nghijklmno"), "{}", ended.errors);
    let lines = fs::read_to_string(desk.path("text.jsonl")).unwrap();
    assert_eq!(lines, "{\"prompt\":\"ab\",\"text\":\"abcdef\"}\n");
}

#[test]
fn several_texts_go_to_lines_of_a_file() {
    let desk = Desk::new();
    let settings =
        |file: &str| counting(&format!(r#"prompt: ["a", "xy"], length: 2, top_k: 1, write: "{file}""#));
    desk.write("t.ron", settings("texts.jsonl").replace("u8[B, 8]", "u8[2, 8]"));
    let ended = desk.engine(&["run", "t.ron", "--device", "cpu"]);
    assert_eq!((ended.code, &*ended.results), (0, "abc\nxyz{\n"), "{}", ended.errors);
    let lines = "{\"prompt\":\"a\",\"text\":\"abc\"}\n{\"prompt\":\"xy\",\"text\":\"xyz{\"}\n";
    assert_eq!(fs::read_to_string(desk.path("texts.jsonl")).unwrap(), lines);
    // They replace lines of texts, and no others.
    assert_eq!(desk.engine(&["run", "t.ron", "--device", "cpu"]).code, 0);
    desk.write("texts.jsonl", "{\"mine\": 1}\n");
    let said = "error[E0505]: texts.jsonl: already exists, and is not a file of texts of this program";
    check_failure(&desk.engine(&["run", "t.ron", "--device", "cpu"]), 1, said);
    assert_eq!(fs::read_to_string(desk.path("texts.jsonl")).unwrap(), "{\"mine\": 1}\n");
    assert_eq!(desk.engine(&["run", "t.ron", "--device", "cpu", "--force"]).code, 0);
    assert_eq!(fs::read_to_string(desk.path("texts.jsonl")).unwrap(), lines);
    desk.write("t.ron", settings("texts.txt"));
    let ended = desk.engine(&["run", "t.ron", "--device", "cpu"]);
    assert!(ended.errors.contains("2 texts do not go to one plain file"), "{}", ended.errors);
}

#[test]
fn a_model_that_sees_later_tokens_has_no_cache() {
    let desk = Desk::new();
    let open = transformer("u8[B, T]", "length: 9").replace("causal=true", "causal=false");
    desk.write("t.ron", open.clone());
    let ended = desk.engine(&["run", "t.ron", "--device", "cpu"]);
    assert!(ended.code != 0, "{}", ended.results);
    assert!(ended.errors.contains("`logits` of a token depends on the tokens behind it"), "{}", ended.errors);
    desk.write("t.ron", open.replace("length: 9", "length: 9, cache: false"));
    assert_eq!(desk.engine(&["run", "t.ron", "--device", "cpu"]).code, 0);
}

#[test]
fn a_text_that_may_not_slide_ends_with_an_error() {
    let ended = generated(r#"prompt: "ab", length: 12, temperature: 0, slide: false"#);
    assert!(ended.code != 0 && ended.results.starts_with("abcdefghi"), "{}", ended.results);
    assert!(ended.errors.contains("has reached the 8 tokens that the model sees"), "{}", ended.errors);
}

/// A model of the tokens of its data writes with the data's tokenizer.
#[test]
fn the_tokenizer_of_the_data_is_that_of_the_text() {
    let desk = Desk::new();
    desk.write("t.json", include_str!("../examples/tokenizer_gpt2.json"));
    desk.write("a.txt", "The licence of this work, and nothing else. ".repeat(20));
    // Each token is followed by itself.
    let text = r#"(
      data: {"text": (source: "text", file: "a.txt", context: 8, tokenizer: "t.json")},
      inputs: {"token": (type: "i32[B, 8]", from: "text.input")},
      nodes: {"logits": "one_hot(token, classes=2000) * 50.0"},
      stages: {"write": Generate(tokens: "token", logits: "logits", prompt: " work", length: 2)},
    )"#;
    desk.write("again.ron", text);
    let ended = desk.engine(&["run", "again.ron", "--device", "cpu", "--data-dir", "."]);
    assert_eq!((ended.code, &*ended.results), (0, " work work work\n"), "{}", ended.errors);

    desk.write("bytes.ron", text.replace(r#", tokenizer: "t.json""#, "").replace("i32[B, 8]", "u8[B, 8]"));
    // Bytes in a table of 2,000 classes, of which 256 are drawn.
    let ended = desk.engine(&["run", "bytes.ron", "--device", "cpu", "--data-dir", "."]);
    assert_eq!((ended.code, &*ended.results), (0, " workkk\n"), "{}", ended.errors);
    let alone = text.replace(r#"(type: "i32[B, 8]", from: "text.input")"#, r#""i32[B, 8]""#);
    desk.write("alone.ron", alone);
    let ended = desk.engine(&["check", "alone.ron", "--data-dir", "."]);
    assert!(ended.errors.contains("`logits` has 2000 classes, and tokens are bytes"), "{}", ended.errors);
    // The data is elsewhere, and with it the tokenizer.
    std::fs::remove_file(desk.path("t.json")).unwrap();
    assert_eq!(desk.engine(&["check", "again.ron", "--data-dir", "."]).code, 0);
}
