"""Writes a small GPT-2 with random weights, as `transformers` saves it, its logits and a greedy continuation.

    python tests/examples/gpt2.py

`gpt2.safetensors` has the names of a GPT-2 of any size; `gpt2.json` has tokens, logits and the continuation.
"""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel

HERE = Path(__file__).parent

torch.manual_seed(3)
config = GPT2Config(vocab_size=97, n_positions=24, n_embd=32, n_layer=3, n_head=4)
model = GPT2LMHeadModel(config).eval()
with torch.no_grad():
    for parameter in model.parameters():
        parameter.add_(0.3 * torch.randn_like(parameter))
# The head is tied to the table of tokens, so the file has it once.
weights = {name: tensor.clone() for name, tensor in model.state_dict().items() if name != "lm_head.weight"}
save_file(weights, HERE / "gpt2.safetensors")

tokens = torch.randint(0, 97, (2, 24))
with torch.no_grad():
    logits = model(tokens).logits
    prompt = tokens[:1, :5]
    continuation = model.generate(
        prompt, attention_mask=torch.ones_like(prompt), max_length=24, do_sample=False, pad_token_id=0
    )
recorded = {
    "tokens": tokens.flatten().tolist(),
    "logits": [round(x, 6) for x in logits.flatten().tolist()],
    "prompt": tokens[0, :5].tolist(),
    "continuation": continuation[0, 5:].tolist(),
}
(HERE / "gpt2.json").write_text(json.dumps(recorded) + "\n")
print(len(weights), "tensors", list(weights)[:16])
