//! Pages of error codes, checks of several files, and completions of shells.

use super::*;

#[test]
fn the_page_of_a_code_is_printed() {
    let desk = Desk::new();
    for code in ["E0606", "e0606"] {
        let ended = desk.engine(&["help", code]);
        assert_eq!((ended.code, &*ended.errors), (0, ""));
        assert_eq!(ended.results, include_str!("../../docs/errors/E0606.md"));
    }
    assert_eq!(desk.engine(&["help", "softmax"]).results, desk.engine(&["ops", "softmax"]).results);
    assert_eq!(desk.engine(&["help", "run"]).results, desk.engine(&["run", "--help"]).results);
    assert_eq!(desk.engine(&["help"]).results, desk.engine(&["--help"]).results);
}

#[test]
fn unknown_topics_name_the_nearest() {
    let desk = Desk::new();
    let nearest =
        "there is no error code `E0602`; the nearest are\n  E0601: an index is out of range\n  E0603:";
    check_failure(&desk.engine(&["help", "E0602"]), 1, nearest);
    let range = "error: there is no error code `E9999`; they are E0001 to E0614\n";
    check_failure(&desk.engine(&["help", "E9999"]), 1, range);
    check_failure(&desk.engine(&["help", "sofmax"]), 1, "did you mean `softmax`?");
    check_failure(&desk.engine(&["help", "chekc"]), 1, "did you mean `check`?");
    check_failure(&desk.engine(&["help", "zzzz"]), 1, "topics are error codes such as E0606");
}

#[test]
fn the_variables_of_users_are_listed() {
    let help = Desk::new().engine(&["--help"]).results;
    for name in ["DATA_DIR", "OFFLINE", "ON_DISK_MIB", "CACHE_DIR", "CUDA_CAPABILITY"] {
        assert!(help.contains(&format!("\n  ENGINE_{name} ")), "{name}: {help}");
    }
}

#[test]
fn wrong_usage_is_reported_with_the_usage_of_the_command() {
    let desk = Desk::new();
    let refused = |arguments: &[&str], said: &str| check_failure(&desk.engine(arguments), 2, said);
    refused(&["verify", "--device", "cpu"], "\nUsage: engine verify [OPTIONS]");
    refused(&["run", "tiny.ron", "--input", "x=1", "--input", "x=2"], "\nUsage: engine run [OPTIONS]");
    let fuel = "error: invalid value 'x' for '--fuel <N>': expected a whole number from 0 on\n";
    refused(&["run", "tiny.ron", "--fuel", "x"], fuel);
    let warmup = "'--warmup <N>': expected a whole number from 0 on\n";
    refused(&["bench", "tiny.ron", "--warmup", "1.5"], warmup);
    let mib = "'--resident-mib <N>': expected a whole number from 0 to 4294967295\n";
    refused(&["run", "tiny.ron", "--resident-mib", "4294967296"], mib);
    for command in ["run", "check", "explain", "verify", "bench", "profile"] {
        let folder = "error: invalid value 'none' for '--data-dir <DIR>': there is no such folder\n";
        refused(&[command, "tiny.ron", "--data-dir", "none"], folder);
    }
    let folder = "'--data-dir <DIR>': there is no such folder\n";
    refused(&["why", "tiny.ron", "h", "loss", "--data-dir", "none"], folder);
}

#[test]
fn the_page_of_a_layer_has_its_settings_and_its_text() {
    let page = Desk::new().engine(&["ops", "RMSNorm"]).results;
    assert!(page.starts_with("RMSNorm(x, eps=1e-6) -> out\n"), "{page}");
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("layers/norms.ron")).unwrap();
    let line = text.lines().position(|line| line.contains("\"RMSNorm\"")).unwrap() + 1;
    assert!(
        page.contains(&format!("\nDefinition in layers/norms.ron:{line}\n\n  \"RMSNorm\": (\n")),
        "{page}"
    );
    assert!(page.ends_with("  )\n"), "{page}");
}

/// A layer describes its operands by patterns and defaults, and its settings by their kinds.
#[test]
fn the_page_of_a_layer_has_no_fillers() {
    let desk = Desk::new();
    let page = desk.engine(&["ops", "Linear"]).results;
    let parts = "Operands\n\n  x: `[..., I]`\n\nAttributes\n\n  width (integer), required\n  bias (true or false) = true\n";
    assert!(page.contains(parts), "{page}");
    let listed = desk.engine(&["ops", "--markdown"]).results;
    assert!(!listed.contains(": an operand\n") && !listed.contains("a setting of the function"), "{listed}");
}

#[test]
fn several_files_are_checked_at_once() {
    let desk = Desk::new();
    desk.write("faulty.ron", GRAPH.replace("x @ w1", "x @ w3"));
    desk.write("odd.ron", "(nodes: {");
    let ended = desk.engine(&["check", "tiny.ron", "faulty.ron", "odd.ron", "tiny.ron"]);
    assert_eq!(ended.code, 1);
    assert_eq!(ended.results.matches("tiny.ron: tiny is sound: ").count(), 2, "{}", ended.results);
    assert!(ended.errors.contains("[E0101]") && ended.errors.contains("[E0003]"), "{}", ended.errors);
    assert!(
        ended.errors.ends_with("error: 2 of 4 pipelines cannot run: faulty.ron, odd.ron\n"),
        "{}",
        ended.errors
    );

    let ended = desk.engine(&["check", "tiny.ron", "tiny.ron"]);
    assert!(ended.code == 0 && ended.results.ends_with("2 pipelines are sound\n"), "{}", ended.results);
    assert_eq!(desk.engine(&["check"]).code, 2);
}

#[test]
fn shells_complete_commands_and_flags() {
    let desk = Desk::new();
    for shell in ["bash", "zsh", "fish"] {
        let ended = desk.engine(&["completions", shell]);
        assert_eq!((ended.code, &*ended.errors), (0, ""));
        for word in ["explain", "log-every", "selftest"] {
            assert!(ended.results.contains(word), "{shell}: {word}");
        }
    }
    assert_eq!(desk.engine(&["completions", "tcsh"]).code, 2);
}
