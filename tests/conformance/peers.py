"""What the scripts of this folder share: a table of ops with peers, and its JSON.

A script lists ops. Each has the name of its peer, a function of PyTorch tensors that computes it, and cases. Floats of
a case are exact in `bf16` and `f16`, so one case serves all float types: the peer computes in double precision, and the
test compares in units in the last place of the type under test.

`$0`, `$1`, ... in a call stand for operands, `$T` for the element type under test. The type `T` of an operand is the
one under test, and `W` the same but at least `f32`.
"""

import json
import math
import pathlib

import torch

torch.manual_seed(0)
torch.set_num_threads(1)

inf, nan = math.inf, math.nan
FLOATS = ("f32", "f64", "f16", "bf16")
WIDE = ("f32", "f64")
SIGNED, UNSIGNED = ("i32", "i64", "i8", "i16"), ("u32", "u8", "u16")
INTS = (*SIGNED, *UNSIGNED)
TORCH = {
    "bool": torch.bool,
    "i32": torch.int32,
    "i64": torch.int64,
    "u8": torch.uint8,
    "u32": torch.int64,
    "i8": torch.int8,
    "i16": torch.int16,
    "u16": torch.int64,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
}
# Σ weight · y is differentiated; result number r starts at weight 3r.
WEIGHTS = (1.0, -0.5, 2.0, 0.25, -1.5, 0.75, 1.25)

OPS = []


def op(name, peer, reference, *cases):
    """Adds an op. A case is a function of `reference`, made by `case`."""
    cases = [made(name, reference) for made in cases]
    OPS.append({"op": name, "peer": peer, "reference": reference, "cases": cases})


def more(names, *cases, reference=None):
    """Adds cases to ops that are there, by their own peers unless the cases have others."""
    for entry in [entry for entry in OPS if entry["op"] in names.split()]:
        entry["cases"] += [made(entry["op"], reference or entry["reference"]) for made in cases]


def t(values, dtype="T"):
    """An operand from nested lists."""
    return dtype, torch.tensor(values, dtype=torch.float64 if dtype == "T" else TORCH[dtype])


def grid(*shape, low=-2.0, high=2.0, step=1 / 16, avoid=(), seed=0):
    """Random multiples of `step`, all different if there are enough."""
    count = math.prod(shape)
    numbers = [k * step for k in range(math.ceil(low / step), math.floor(high / step) + 1) if k * step not in avoid]
    draw = torch.Generator().manual_seed(1000 * seed + count + 7 * len(shape))
    order = torch.cat([torch.randperm(len(numbers), generator=draw) for _ in range(count // len(numbers) + 1)])
    return "T", torch.tensor(numbers, dtype=torch.float64)[order[:count]].reshape(shape)


def ints(*shape, low=0, high=10, dtype="T", seed=0):
    """Random integers from `low` to `high`, both included."""
    draw = torch.Generator().manual_seed(1000 * seed + math.prod(shape) + 13)
    kind = torch.int64 if dtype == "T" else TORCH[dtype]
    return dtype, torch.randint(low, high + 1, shape, generator=draw).to(kind)


def truths(*shape, seed=0):
    return "bool", ints(*shape, high=1, dtype="u8", seed=seed)[1].bool()


TRANSPOSED = ("transpose(%s)", lambda x: x.mT)
BACKWARDS = ("slice(%s, axis=0, step=-2)", lambda x: x.flip(0)[::2] if x.shape[0] % 2 else x.flip(0)[::2])


def case(
    title,
    *operands,
    types=FLOATS,
    grad=True,
    whole=False,
    view=None,
    call=None,
    reference=None,
    weigh=None,
    only=None,
    results=None,
    params=None,
    **settings,
):
    """A case of an op.

    `settings` are those of the call. `view` is applied to the first operand. `whole` measures errors of results against
    the largest element instead of each element, as errors of gradients always are. `weigh` lists the results that are
    differentiated. `only` names the devices on which the case holds. `params` are the parameters of a layer by name;
    the peer gets them after the operands. `results` are the types of the results, if they are not plain.
    """

    def made(name, of_op):
        function = reference or of_op
        arguments, named = [f"${i}" for i in range(len(operands))], params or {}
        given = [*operands, *named.values()]
        viewed = list(arguments)
        if view:
            viewed[0] = view[0] % viewed[0]
        text = call or f"{name}({', '.join(viewed + [f'{key}={setting(value)}' for key, value in settings.items()])})"
        tensors = [x.clone().requires_grad_(grad and x.is_floating_point()) for _, x in given]
        seen = [view[1](x) if view and i == 0 else x for i, x in enumerate(tensors)]
        found = function(*seen, **settings) if settings and reference is None else function(*seen)
        found = [found] if torch.is_tensor(found) else list(found)
        kinds = results or [kind_of(x, types) for x in found]
        recorded = {
            "title": title,
            "call": text,
            "types": list(types),
            "inputs": [described(*x) for x in given],
            "outputs": [described(*x) for x in zip(kinds, found)],
        }
        if grad:
            recorded |= {"grads": gradients(found, tensors, weigh), "weighs": weighed(found, weigh)}
        if named:
            recorded["params"] = list(named)
        if whole:
            recorded["whole"] = True
        if only:
            recorded["only"] = only
        return recorded

    return made


def setting(value):
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) and not value.startswith("$") else str(value).replace("None", "none")


def kind_of(result, types):
    if result.dtype == torch.bool:
        return "bool"
    if result.is_floating_point():
        return "T"
    return "T" if result.dtype == torch.int64 and types[0] in INTS else "i32"


def weighed(results, weigh):
    floats = [r for r, x in enumerate(results) if x.is_floating_point() and x.requires_grad]
    return [r for r in floats if weigh is None or r in weigh]


def gradients(results, tensors, weigh):
    chosen = weighed(results, weigh)
    wanted = [x for x in tensors if x.requires_grad]
    upstream = [weights(results[r], r) for r in chosen]
    grads = iter(torch.autograd.grad([results[r] for r in chosen], wanted, upstream, allow_unused=True))
    return [flat(zero_like(next(grads), x)) if x.requires_grad else None for x in tensors]


def zero_like(grad, x):
    return torch.zeros_like(x) if grad is None else grad


def weights(y, r):
    return torch.tensor([WEIGHTS[(i + 3 * r) % 7] for i in range(y.numel())], dtype=y.dtype).reshape(y.shape)


def described(dtype, x):
    return [dtype, list(x.shape), flat(x)]


def flat(x):
    return [spelled(value) for value in x.detach().flatten().tolist()]


def spelled(x):
    """JSON has no NaN and no infinities. Whole numbers are shorter without a point."""
    if not math.isfinite(x):
        return str(x)
    return int(x) if x == int(x) and (x or math.copysign(1, x) > 0) and abs(x) < 2**53 else x


def write(script):
    """Writes the table beside the script, a line for each case."""
    lines = []
    for entry in OPS:
        cases = ",\n".join("  " + json.dumps(case, separators=(",", ":")) for case in entry["cases"])
        lines.append(f'{{"op": {json.dumps(entry["op"])}, "peer": {json.dumps(entry["peer"])}, "cases": [\n{cases}]}}')
    pathlib.Path(script).with_suffix(".json").write_text("[\n" + ",\n".join(lines) + "\n]\n")
