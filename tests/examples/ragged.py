"""Expected numbers of ragged results, from plain loops: python tests/examples/ragged.py

Numbers are multiples of 1/8, so that sums of them are exact. Gradients are for the upstream gradients 1, 2, 3, ... of every
float result."""

import json
import math
import pathlib
import random

inf, nan = math.inf, math.nan
rng = random.Random(7)
cases = []


def spelled(x):
    return float(x) if math.isfinite(x) else str(float(x))


def tensor(dtype, extents, numbers):
    assert len(numbers) == math.prod(extents), (extents, len(numbers))
    return [f"{dtype}[{', '.join(map(str, extents))}]", [spelled(x) for x in numbers]]


def case(title, call, inputs, outputs, grads=None):
    grads = grads and [g and [spelled(x) for x in g] for g in grads]
    cases.append({"title": title, "call": call, "inputs": [tensor(*t) for t in inputs],
                  "outputs": [tensor(*t) for t in outputs], "grads": grads})


def eighths(n, low=-16, high=16):
    return [rng.randint(low, high) / 8 for _ in range(n)]


def flags(n, share):
    return [float(rng.random() < share) for _ in range(n)]


def filled(numbers, cap, fill):
    return numbers + [fill] * (cap - len(numbers))


def rank_select():
    for n, share in [(1, 1), (31, 0.5), (64, 1), (96, 0), (200, 0.6), (400, 0.9)]:
        f = flags(n, share)
        at = [rng.randint(0, n) for _ in range(40)] + [0, n]
        places = [i for i in range(n) if f[i]]
        case(f"{n} flags", f"rank_select(a, b, cap={len(places)})", [("bool", [n], f), ("i32", [len(at)], at)],
             [("i32", [len(at)], [sum(f[:i]) for i in at]), ("i32", [len(places)], places), ("i32", [], [len(places)])])


def compact():
    for rows, columns, share, more in [(1, 1, 1, 0), (3, 33, 0.4, 5), (7, 5, 0.6, 2), (4, 100, 0.9, 0), (2, 3, 0, 2)]:
        f = flags(rows * columns, share)
        places = [i for i in range(rows * columns) if f[i]]
        cap = len(places) + more
        lims = [sum(f[:r * columns]) for r in range(rows + 1)]
        results = [("i32", [rows + 1], lims), ("i32", [cap], filled([i % columns for i in places], cap, -1)),
                   ("i32", [cap], filled([i // columns for i in places], cap, -1))]
        case(f"{rows} rows of {columns}", f"compact(a, cap={cap})", [("bool", [rows, columns], f)], results)
        results[1:] = [("i32", [0], [])] * 2
        case("limits alone", "compact(a, cap=0)", [("bool", [rows, columns], f)], results)
    case("one row", "compact(a, cap=3)", [("bool", [4], [0, 1, 1, 0])],
         [("i32", [2], [0, 2]), ("i32", [3], [1, 2, -1]), ("i32", [3], [0, 0, -1])])
    case("no columns", "compact(a, cap=2)", [("bool", [3, 0], [])],
         [("i32", [4], [0] * 4), ("i32", [2], [-1, -1]), ("i32", [2], [-1, -1])])


def listed():
    for extents in [[5], [3, 4], [2, 3, 4]]:
        n = math.prod(extents)
        x = [rng.choice([0, -0.5, 1.25, 0, nan]) for _ in range(n)]
        places = [i for i in range(n) if x[i] != 0]
        cap, at = len(places) + 2, []
        for i in places:
            coordinates = []
            for extent in reversed(extents):
                coordinates.insert(0, i % extent)
                i //= extent
            at += coordinates
        case(f"{len(extents)} axes", f"nonzero(a, cap={cap})", [("f32", extents, x)],
             [("i32", [cap, len(extents)], filled(at, cap * len(extents), -1)), ("i32", [], [len(places)])])
        x, mask = eighths(n), flags(n, 0.5)
        chosen = [i for i in range(n) if mask[i]]
        cap = len(chosen) + 2
        dx = [float(chosen.index(i) + 1) if mask[i] else 0.0 for i in range(n)]
        case(f"{len(extents)} axes", f"masked_select(a, b, cap={cap})", [("f32", extents, x), ("bool", extents, mask)],
             [("f32", [cap], filled([x[i] for i in chosen], cap, 0)), ("i32", [], [len(chosen)])], [dx, None])
    case("full", "masked_select(a, b, cap=2)", [("f32", [2], [1.5, 2]), ("bool", [2], [1, 1])],
         [("f32", [2], [1.5, 2]), ("i32", [], [2])], [[1, 2], None])


def unique():
    def add(title, dtype, x, more=0):
        keys = sorted({inf if math.isnan(v) else v for v in x if not math.isnan(v)})
        count = [sum(v == key for v in x) for key in keys]
        inverse = [keys.index(v) if not math.isnan(v) else len(keys) for v in x]
        n_nan = sum(math.isnan(v) for v in x)
        keys, count = (keys + [nan], count + [n_nan]) if n_nan else (keys, count)
        cap = len(keys) + more
        case(title, f"unique(a, cap={cap})", [(dtype, [len(x)], x)],
             [(dtype, [cap], filled(keys, cap, 0)), ("i32", [len(x)], inverse), ("i32", [cap], filled(count, cap, 0)),
              ("i32", [], [len(keys)])])

    add("many equal", "f32", [rng.randint(-4, 4) / 2 for _ in range(60)], 3)
    add("all distinct", "f32", [5, -3, 1.5, 0.25])
    add("NaN and infinities", "f32", [nan, 1, inf, nan, -inf, 1, inf], 2)
    add("one", "f32", [2], 1)
    add("integers", "i32", [7, -7, 7, 0, 2147483647, -2147483648], 1)


def segments(n, lims):
    return [range(lims[r], lims[r + 1]) for r in range(len(lims) - 1)]


def reductions():
    layouts = [(1, [0, 1]), (9, [0, 2, 2, 7]), (70, [3, 40, 41, 41, 70]), (150, [0, 1, 33, 64, 65, 140, 150]),
               (2200, [5, 30, 100, 101, 1200, 2190])]
    for n, lims in layouts:
        for width in ([1] if n > 1000 else [1, 2]):
            rows = len(lims) - 1
            x = [[rng.randint(-64, 64) / 8 for _ in range(width)] for _ in range(n)]
            flat = [v for row in x for v in row]
            extents = [n, width] if width > 1 else [n]
            results = [rows, width] if width > 1 else [rows]
            inputs = [("f32", extents, flat), ("i32", [rows + 1], lims)]
            pieces = [[[x[i][c] for i in piece] for c in range(width)] for piece in segments(n, lims)]
            ways = {"sum": sum, "mean": lambda v: sum(v) / len(v) if v else nan,
                    "max": lambda v: max(v, default=-inf), "min": lambda v: min(v, default=inf)}
            for by, way in ways.items():
                y = [way(piece) for row in pieces for piece in row]
                dx = [0.0] * (n * width)
                for r, piece in enumerate(segments(n, lims)):
                    for c in range(width):
                        g, v = r * width + c + 1, pieces[r][c]
                        ties = sum(e == y[r * width + c] for e in v)
                        for i in piece:
                            share = {"sum": 1, "mean": 1 / len(v)}.get(by)
                            share = share or ((x[i][c] == y[r * width + c]) / ties)
                            dx[i * width + c] = g * share
                case(f"{by} of {rows} segments of {n}, {width} wide", f'segment_reduce(a, b, by="{by}")', inputs,
                     [("f32", results, y)], [dx, None])
            if n < 1000:
                more_segments(n, lims, width, x, pieces)
    case("integers", 'segment_reduce(a, b, by="max")', [("i32", [3], [-7, -9, 4]), ("i32", [3], [0, 2, 2])],
         [("i32", [2], [-7, -2147483648])])
    case("integers", 'segment_reduce(a, b, by="min")', [("i32", [3], [7, 9, -4]), ("i64", [3], [0, 2, 2])],
         [("i32", [2], [7, 2147483647])])


    case("large numbers do not overflow", "segment_softmax(a, b)", [("f32", [3], [1000, 1001, 1000]), ("i32", [2], [0, 2])],
         [("f32", [3], [1 / (1 + math.e), math.e / (1 + math.e), 0])])


def more_segments(n, lims, width, x, pieces):
    rows = len(lims) - 1
    results = [rows, width] if width > 1 else [rows]
    values = [rng.randint(1, 40) / 8 for _ in range(rows * width)]
    y, drows = [0.0] * (n * width), [0.0] * (rows * width)
    weights, dx = [0.0] * (n * width), [0.0] * (n * width)
    for r, piece in enumerate(segments(n, lims)):
        for c in range(width):
            total = sum(math.exp(v) for v in pieces[r][c])
            mean = sum(math.exp(x[i][c]) / total * (i * width + c + 1) for i in piece)
            for i in piece:
                at = i * width + c
                y[at] = values[r * width + c]
                drows[r * width + c] += at + 1
                weights[at] = math.exp(x[i][c]) / total
                dx[at] = weights[at] * (at + 1 - mean)
    extents = [n, width] if width > 1 else [n]
    limits = ("i32", [rows + 1], lims)
    case(f"{rows} segments of {n}, {width} wide", f"spread(a, b, cap={n})", [("f32", results, values), limits],
         [("f32", extents, y)], [drows, None])
    case(f"{rows} segments of {n}, {width} wide", "segment_softmax(a, b)",
         [("f32", extents, [v for row in x for v in row]), limits], [("f32", extents, weights)],
         [dx, None] if n < 100 else None)


def within():
    def value(metric, q, x):
        product = lambda a, b: sum(u * v for u, v in zip(a, b))
        square = sum((u - v) ** 2 for u, v in zip(q, x))
        if metric == "cosine":
            lengths = math.sqrt(product(q, q) * product(x, x))
            return 1 - product(q, x) / lengths if lengths else 1
        return {"l2": square, "euclidean": math.sqrt(square), "ip": product(q, x)}[metric]

    def add(title, metric, q, x, radii, more=2, hidden=None):
        lims, ids, values = [0], [], []
        for i, query in enumerate(q):
            radius = radii[i] if len(radii) > 1 else radii[0]
            for j, row in enumerate(x):
                v = value(metric, query, row)
                if (v >= radius if metric == "ip" else v <= radius) and not (hidden and not hidden[j]):
                    ids.append(j)
                    values.append(v)
            lims.append(len(ids))
        cap, d = len(ids) + more, len(x[0])
        flat = lambda rows: [v for row in rows for v in row]
        inputs = [("f32", [len(q), d], flat(q)), ("f32", [len(x), d], flat(x)),
                  ("f32", [len(radii)] if len(radii) > 1 else [], radii)]
        inputs += [("bool", [len(x)], hidden)] if hidden else []
        case(title, f'within(a, b, c, {"d, " if hidden else ""}metric="{metric}", cap={cap})', inputs,
             [("i32", [len(q) + 1], lims), ("i32", [cap], filled(ids, cap, -1)),
              ("f32", [cap], filled(values, cap, -inf if metric == "ip" else inf)),
              # Of so few pairs, all are compared.
              ("i32", [len(q)], [len(x)] * len(q))])

    points = lambda n, d: [eighths(d, -8, 8) for _ in range(n)]
    for metric, radius in [("l2", 1.5), ("euclidean", 1.2), ("ip", 0.25), ("cosine", 0.6)]:
        q, x = points(5, 3), points(17, 3)
        add("one radius", metric, q, x, [radius])
        add("radii", metric, q, x, [radius, radius / 2, inf, -inf, 0 if metric == "ip" else radius * 1.3])
        add("a filter", metric, q, x, [radius], hidden=flags(17, 0.5))
        add("a row for all", metric, q, [[0.0, 0.0, 0.0], [0.5, 1, 2]], [radius], more=1)
    add("negative products", "ip", points(4, 2), points(9, 2), [-0.5, -1, -0.25, 0.5])
    whole = lambda n: [[float(rng.randint(-2, 2)) for _ in range(2)] for _ in range(n)]
    add("equal to the radius", "l2", whole(4), whole(20), [4.0])
    add("NaN", "l2", points(2, 2), [[nan, 1], [0.5, 0.5]], [8.0])
    add("a radius of NaN", "l2", points(2, 2), points(3, 2), [nan, 9.0])


rank_select()
compact()
listed()
unique()
reductions()
within()
path = pathlib.Path(__file__).with_suffix(".json")
path.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")
