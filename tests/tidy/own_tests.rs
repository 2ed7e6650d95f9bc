//! Tests of the scanner itself.

use crate::imports::{Crate, circles};
use crate::lexer::lex;
use crate::source::{Source, functions};
use crate::words::{hits, hits_of_source};

fn source(path: &str, text: &str) -> Source {
    Source { path: path.to_string(), n_lines: text.lines().count(), lexed: lex(text), is_test: false }
}

#[test]
fn strings_comments_and_lifetimes_are_no_code() {
    let text = "fn f<'a>(x: &'a str) { g('{', '\\'', \"}\\\"\", r#\"\"}\"#, b'}'); /* } /* } */ */ } // }";
    let lexed = lex(text);
    let tokens: Vec<&str> = lexed.tokens.iter().map(|token| token.text.as_str()).collect();
    assert_eq!(tokens.join(" "), "fn f < > ( x : & str ) { g ( , , , , b ) ; }");
    assert_eq!(lexed.comments.len(), 2);
    assert_eq!(lexed.strings.len(), 2);
}

#[test]
fn a_function_ends_at_its_closing_brace() {
    let source = source("a.rs", "trait T { fn none(&self); }\nfn two() {\n    if x { y() } }\nfn one() {}\n");
    let found: Vec<_> = functions(&source).into_iter().map(|f| (f.name, f.line, f.n_lines)).collect();
    assert_eq!(found, [("two".to_string(), 2, 2), ("one".to_string(), 4, 1)]);
}

#[test]
fn a_child_that_uses_what_its_parent_defines_is_in_a_circle_with_it() {
    let circles_of = |child: &str| {
        let parent = "mod a;\nmod b;\npub use b::Shared;\npub struct Own;\nfn f() { a::go() }";
        let a = source("c/src/m/a.rs", child);
        let files = [source("c/src/m/mod.rs", parent), a, source("c/src/m/b.rs", "pub struct Shared;")];
        circles(&Crate::new("c/src", &files).imports(&["m".to_string()]))
    };
    assert_eq!(circles_of("use super::Own;"), [["a", "mod"]]);
    // The parent only exports what a sibling defines.
    assert!(circles_of("use super::Shared;").is_empty());
    assert!(circles_of("#[cfg(test)]\nmod tests { use super::super::Own; }").is_empty());
}

#[test]
fn words_are_found_across_lines_but_not_in_code() {
    let of = |text: &str| hits(text, 1).into_iter().map(|hit| (hit.line, hit.word)).collect::<Vec<_>>();
    assert_eq!(of("// Who hands\n/// it in."), []);
    assert_eq!(
        of("/// It was looked\n/// at. Nobody, `nobody` and come. To"),
        [(2, "nobody"), (1, "looked at")]
    );
    let source = source("a.rs", "// Nothing.\nfn nobody() { fail(\"it amounts to 2\") }");
    assert_eq!(hits_of_source(&source).len(), 1);
}
