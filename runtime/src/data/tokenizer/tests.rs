#![allow(clippy::unwrap_used)]

use serde_json::json;

use super::*;
use crate::fuzz::many_times;

const GPT2: &str = include_str!("../../../../tests/examples/tokenizer_gpt2.json");
const LLAMA3: &str = include_str!("../../../../tests/examples/tokenizer_llama3.json");
/// Tokens by Hugging Face's `tokenizers` (`tests/examples/tokenizer.py`).
const CASES: &str = include_str!("../../../../tests/examples/tokenizer.json");

#[derive(Deserialize)]
struct Case {
    tokenizer: String,
    text: String,
    ids: Vec<u32>,
    decoded: String,
}

fn parsed(json: &str) -> Tokenizer {
    Tokenizer::parse(json.as_bytes()).unwrap()
}

/// GPT-2's file with other values of some fields.
fn changed(change: impl FnOnce(&mut Value)) -> Result<Tokenizer, String> {
    let mut file: Value = serde_json::from_str(GPT2).unwrap();
    change(&mut file);
    Tokenizer::parse(file.to_string().as_bytes()).map_err(|fact| fact.to_string())
}

#[test]
fn tokens_are_those_of_the_python_package() {
    let digits = json!({"type": "Digits", "individual_digits": true});
    let steps = json!({"type": "Sequence", "pretokenizers": [digits, {"type": "ByteLevel"}]});
    let prefixed = changed(|file| file["pre_tokenizer"] = steps).unwrap();
    let (gpt2, llama3) = (parsed(GPT2), parsed(LLAMA3));
    let cases: Vec<Case> = serde_json::from_str(CASES).unwrap();
    assert_eq!(cases.len(), 45);
    for case in cases {
        let tokenizer = match &*case.tokenizer {
            "gpt2" => &gpt2,
            "llama3" => &llama3,
            _ => &prefixed,
        };
        assert_eq!(tokenizer.encode(&case.text).unwrap(), case.ids, "{}: {:?}", case.tokenizer, case.text);
        assert_eq!(tokenizer.decode(&case.ids), case.decoded);
    }
}

#[test]
fn texts_survive_encoding() {
    let tokenizer = parsed(LLAMA3);
    let letters: Vec<char> = "ab s' \n\t9½é🙂<|end|>\u{300}".chars().collect();
    many_times(0x70c, |stream| {
        let text: String =
            (0..stream.below(60)).map(|_| letters[stream.below(letters.len() as u32) as usize]).collect();
        assert_eq!(tokenizer.decode(&tokenizer.encode(&text).unwrap()), text);
    });
}

#[test]
fn tokens_of_bytes_are_bytes() {
    let bytes = Tokenizer::bytes();
    assert_eq!((bytes.n_tokens(), bytes.encode("aé").unwrap()), (256, vec![97, 0xc3, 0xa9]));
    assert_eq!(bytes.decode(&[97, 0xc3, 0xa9, 256, 0xff]), "aé\u{fffd}");
    assert_eq!((bytes.token(10), bytes.token(256), bytes.added("a")), (Some(&b"\n"[..]), None, None));
}

#[test]
fn added_tokens_are_known_by_their_texts() {
    let tokenizer = parsed(GPT2);
    assert_eq!((tokenizer.n_tokens(), tokenizer.added("<|end|>")), (601, Some(0)));
    assert_eq!(tokenizer.token(600), Some(&b"<tool>"[..]));
}

/// A million letters without a boundary, as in a sequence of DNA.
#[test]
fn long_pieces_take_little_more_than_their_length() {
    let tokenizer = parsed(GPT2);
    let text = "license".repeat(30_000);
    let ids = tokenizer.encode(&text).unwrap();
    assert!(ids.len() <= 60_000, "{}", ids.len());
    assert_eq!(tokenizer.decode(&ids), text);
}

#[test]
fn other_tokenizers_are_refused() {
    let refused = |change: fn(&mut Value)| changed(change).unwrap_err();
    let only = "is not supported, only byte-level BPE without a normalizer";
    let wordpiece = refused(|file| file["model"]["type"] = "WordPiece".into());
    assert_eq!(wordpiece, format!("the model WordPiece {only}"));
    let normalized = refused(|file| file["normalizer"] = json!({"type": "NFC"}));
    assert_eq!(normalized, format!("the normalizer NFC {only}"));
    let metaspace = refused(|file| file["pre_tokenizer"] = json!({"type": "Metaspace"}));
    assert_eq!(metaspace, format!("the pre-tokenizer Metaspace {only}"));
    let none = refused(|file| file["pre_tokenizer"] = Value::Null);
    assert_eq!(none, format!("a tokenizer without a pre-tokenizer {only}"));
    let stripped = refused(|file| file["added_tokens"][0]["lstrip"] = true.into());
    assert!(stripped.starts_with("`lstrip`, `rstrip` or `single_word` of the added token `<|end|>`"));
    let split = json!({"type": "Split", "pattern": {"Regex": "(a"}, "behavior": "Isolated", "invert": false});
    let bad = changed(|file| file["pre_tokenizer"] = split).unwrap_err();
    assert!(bad.starts_with("the pattern `(a` is not understood: "), "{bad}");
}

#[test]
fn damaged_files_are_reported() {
    let error = |json: &str| Tokenizer::parse(json.as_bytes()).unwrap_err().to_string();
    assert_eq!(error("{"), "is no tokenizer: EOF while parsing an object at line 1 column 1");
    assert_eq!(error("{}"), "is no tokenizer: missing field `model` at line 1 column 2");
    let with = |merge: Value| changed(|file| file["model"]["merges"] = json!([merge])).unwrap_err();
    assert_eq!(with(json!(["no such token", "a"])), "merge 1: there is no token `no such token`");
    assert_eq!(with(json!("ab")), "merge 1: `ab` is not two tokens with a space between them");
    let many = changed(|file| file["model"]["vocab"]["a"] = 4_000_000_000u32.into()).unwrap_err();
    assert_eq!(many, "a token has the number 4000000000");
    let lacking = changed(|file| {
        file["model"]["vocab"] = json!({"a": 0});
        file["model"]["merges"] = json!([]);
        file["added_tokens"] = json!([]);
    });
    let lacking = lacking.unwrap();
    assert_eq!(lacking.encode("aa").unwrap(), [0, 0]);
    let no_token = lacking.encode("ab").unwrap_err().to_string();
    assert_eq!(no_token, "the vocabulary has no token for the byte 0x62");
    let path = Path::new("no/such/tokenizer.json");
    let missing = Tokenizer::read(path).unwrap_err().to_string();
    assert!(missing.starts_with("no/such/tokenizer.json: cannot be read"), "{missing}");
}

#[test]
fn damaged_files_never_panic() {
    many_times(0x70d, |stream| {
        let mut file = GPT2.as_bytes().to_vec();
        for _ in 0..=stream.below(3) {
            let place = stream.below(file.len() as u32) as usize;
            file[place] = stream.word() as u8;
        }
        drop(Tokenizer::parse(&file).map(|tokenizer| tokenizer.encode("the license")));
    });
}
