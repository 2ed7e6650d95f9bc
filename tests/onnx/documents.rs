//! The table of `docs/onnx.md`.

use std::fmt::Write;
use std::fs;

#[test]
fn the_page_lists_the_ops() {
    let mut table = String::from("\n| op | from opset | expression |\n|---|---|---|\n");
    for (op, since, expression) in engine_onnx::ops() {
        let expression =
            expression.map_or("a function".to_owned(), |text| format!("`{}`", text.replace('|', "\\|")));
        writeln!(table, "| `{op}` | {since} | {expression} |").unwrap();
    }
    let page = fs::read_to_string("docs/onnx.md").unwrap();
    let (before, rest) = page.split_once("<!-- ops -->\n").unwrap();
    let (found, after) = rest.split_once("<!-- end of ops -->").unwrap();
    let expected = format!("{table}\n");
    if found == expected {
        return;
    }
    match std::env::var_os("UPDATE_EXPECT") {
        Some(_) => {
            fs::write("docs/onnx.md", format!("{before}<!-- ops -->\n{expected}<!-- end of ops -->{after}"))
                .unwrap()
        }
        None => panic!("docs/onnx.md lists other ops; UPDATE_EXPECT=1 corrects it"),
    }
}
