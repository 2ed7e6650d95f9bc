"""Tokens of texts by Hugging Face's `tokenizers`: python tests/examples/tokenizer.py

Two small tokenizers are trained on the text of the Apache licence: one as GPT-2's, one with the pattern of Llama 3."""

import json
import pathlib

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).parent
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")

TEXTS = [
    "",
    " ",
    "the",
    "The licence of this work, and nothing else.",
    "it's we'll THEY'RE don't",
    "  two  blanks   and\ttabs\n\n\nand lines \r\n end  ",
    "numbers 1 22 333 4444 55555.25 and ½ ٣",
    "naïve Zürich, Ελλάδα, 日本語, emoji 🙂🙃, e\u0301",
    "signs: !!! ... --- #$% (a[b]{c}) <html> x=y+z;",
    "licenselicenselicense" * 40,
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "<|end|>one<|end|><|end|>two <|end|> three",
    "<|endless|> and <|end| and <tool> here",
    "\u00a0non\u00a0breaking\u2003spaces\u200b",
    "\x00\x01\x7f control \x1b[0m",
]


def trained(pre_tokenizer, ignore_merges):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=["<|end|>", "<|endless|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    lines = (HERE.parent.parent / "LICENSE-APACHE").read_text().splitlines(keepends=True)
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.add_tokens([AddedToken("<tool>", normalized=False)])
    return tokenizer


def main():
    byte_level = pre_tokenizers.ByteLevel
    split = pre_tokenizers.Split(Regex(LLAMA3), behavior="isolated")
    cases = {
        "gpt2": trained(byte_level(add_prefix_space=False), ignore_merges=False),
        "llama3": trained(pre_tokenizers.Sequence([split, byte_level(add_prefix_space=False, use_regex=False)]), True),
    }
    for name, tokenizer in cases.items():
        (HERE / f"tokenizer_{name}.json").write_text(tokenizer.to_str(pretty=False) + "\n")
    prefixed = Tokenizer.from_str(cases["gpt2"].to_str())
    prefixed.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), byte_level(add_prefix_space=True)])
    recorded = []
    for name, tokenizer in [*cases.items(), ("prefixed", prefixed)]:
        for text in TEXTS:
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            decoded = tokenizer.decode(ids, skip_special_tokens=False)
            recorded.append({"tokenizer": name, "text": text, "ids": ids, "decoded": decoded})
    lines = ",\n".join(json.dumps(case) for case in recorded)
    (HERE / "tokenizer.json").write_text(f"[\n{lines}\n]\n")


main()
