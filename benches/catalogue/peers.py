#!/usr/bin/env python3
"""Peers of the benchmarks of the catalogue: PyTorch (captured CUDA graphs, eager or compiled) and JAX, one line a figure.

Usage: peers.py SECTION... [--device cuda|cpu] [--small] [--no-compile] [--budget SECONDS]
Sections: b13 grid b10 extra idx scan  (all: all of them)

A line is `TAG/STAGE [MODE]: median us (min us)`, where TAG and STAGE are those of the engine's benchmark beside it. A figure is the time
of one call within a captured graph of several, by events around a replay; median and least of at least 50 replays. Errors are lines
`TAG/STAGE [MODE]: ERROR ...`; the next figure goes on.
"""
import argparse
import contextlib
import os
import signal
import statistics
import sys
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

ap = argparse.ArgumentParser()
ap.add_argument("sections", nargs="+")
ap.add_argument("--device", default="cuda")
ap.add_argument("--small", action="store_true")
ap.add_argument("--no-compile", action="store_true")
ap.add_argument("--budget", type=float, default=1e9, help="seconds after which no further figure is begun")
ap.add_argument("--limit", type=int, default=60, help="seconds for one figure, its compilation included")
ap.add_argument("--repeats", type=int, default=60)
args = ap.parse_args()
START = time.time()
CUDA, SMALL, DEV = args.device == "cuda", args.small, args.device
REPEATS = args.repeats if CUDA else 3


def say(text):
    print(text, flush=True)


class Late(Exception):
    pass


@contextlib.contextmanager
def limited(seconds):
    def late(*_):
        raise Late(f"took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def figure(name, measure):
    """Prints what `measure` returns, a list of microseconds, or why there is none."""
    if time.time() - START > args.budget:
        return say(f"{name}: SKIPPED, the budget of {args.budget:.0f} s is spent")
    try:
        with limited(args.limit):
            times = measure()
        say(f"{name}: {statistics.median(times):.3f} µs ({min(times):.3f})")
    except (Exception, Late) as error:  # a peer that cannot do it is a result as well
        say(f"{name}: ERROR {type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}")
        if CUDA and "torch" in sys.modules:
            import torch

            with contextlib.suppress(Exception):
                torch.cuda.synchronize()


def shrunk(*extents):
    """Tiny extents for a try on a CPU."""
    return tuple(min(extent, 16) for extent in extents) if SMALL else extents


# ---------------------------------------------------------------------------------------------------------------- PyTorch


def setup_torch():
    import torch

    if not CUDA:
        torch.set_num_threads(1)
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    return torch


def captured(call, calls, repeats=None):
    """Microseconds of one call, by replays of a graph of `calls` calls."""
    import torch

    repeats = repeats or REPEATS
    if not CUDA:
        call()
        times = []
        for _ in range(repeats):
            start = time.perf_counter()
            call()
            times.append((time.perf_counter() - start) * 1e6)
        return times
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(4):
            call()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            call()
    for _ in range(5):
        graph.replay()
    torch.cuda.synchronize()
    times = []
    for _ in range(repeats):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1e3 / calls)
    graph.reset()
    return times


def calls_of(us):
    """How many calls make a graph of some milliseconds, 320 at most, as the engine's steps at once."""
    return max(1, min(320, int(8000 / us)))


def both_ways(name, call, us, compiled=True):
    """Eager and compiled, each captured. `us` is a guess of the time of a call."""
    import torch

    figure(f"{name} [captured]", lambda: captured(call, calls_of(us)))
    if compiled and not args.no_compile and CUDA:
        def measure():
            torch._dynamo.reset()
            fast = torch.compile(call, dynamic=False)
            return captured(fast, calls_of(us))

        figure(f"{name} [compiled, captured]", measure)


# ------------------------------------------------------------------------------------- B13: graphs/tiny_gpt.ron, a training step


def b13():
    torch = setup_torch()
    import torch.nn.functional as F

    B, T, L, HEADS, KV, D, V = 4, 32, 2, 4, 2, 128, 256
    W = D // HEADS

    class Net(torch.nn.Module):
        """`Gpt` of graphs/tiny_gpt.ron: matrices are [inputs, width], as there."""

        def __init__(self):
            super().__init__()
            P, U = torch.nn.Parameter, lambda i, o: (torch.rand(i, o, device=DEV) * 2 - 1) * i**-0.5
            self.embed = P(torch.randn(V, D, device=DEV))
            self.qkv = torch.nn.ParameterList(P(U(D, (HEADS + 2 * KV) * W)) for _ in range(L))
            self.out = torch.nn.ParameterList(P(U(D, D)) for _ in range(L))
            self.up = torch.nn.ParameterList(P(U(D, 4 * D)) for _ in range(L))
            self.down = torch.nn.ParameterList(P(U(4 * D, D)) for _ in range(L))
            self.head = P(U(D, V))
            self.g1 = torch.nn.ParameterList(P(torch.ones(D, device=DEV)) for _ in range(L))
            self.g2 = torch.nn.ParameterList(P(torch.ones(D, device=DEV)) for _ in range(L))
            self.g = P(torch.ones(D, device=DEV))
            angle = torch.arange(T, device=DEV)[:, None] * 1e4 ** (-torch.arange(0, W, 2, device=DEV) / W)
            self.register_buffer("cos", angle.cos())
            self.register_buffer("sin", angle.sin())

        def turn(self, x):
            a, b = x.chunk(2, -1)
            return torch.cat((a * self.cos - b * self.sin, b * self.cos + a * self.sin), -1)

        def forward(self, tokens, targets):
            x = F.embedding(tokens, self.embed)
            for i in range(L):
                z = (F.rms_norm(x, (D,), self.g1[i], 1e-6) @ self.qkv[i]).split([HEADS * W, KV * W, KV * W], -1)
                q, k, v = (part.view(B, T, -1, W).transpose(1, 2) for part in z)
                y = F.scaled_dot_product_attention(self.turn(q), self.turn(k), v, is_causal=True, enable_gqa=True)
                h = x + y.transpose(1, 2).reshape(B, T, D) @ self.out[i]
                x = h + F.relu(F.rms_norm(h, (D,), self.g2[i], 1e-6) @ self.up[i]).square() @ self.down[i]
            logits = F.rms_norm(x, (D,), self.g, 1e-6) @ self.head
            return F.cross_entropy(logits.view(B * T, V), targets.view(B * T), ignore_index=-1)

    place = torch.arange(T, device=DEV)

    def batch():
        tokens = (torch.randint(0, V, (B, 1), device=DEV) + place) % V
        return tokens, torch.where(place == T - 1, -1, (tokens + 1) % V)

    class Muon:
        """Matrices of one shape at a time, the tall ones as their transposes: batched products in f32."""

        def __init__(self, matrices, lr=0.01, mu=0.95, decay=0.01):
            self.lr, self.mu, self.decay, self.groups = lr, mu, decay, {}
            for p in matrices:
                shape = (min(p.shape), max(p.shape))
                self.groups.setdefault(shape, []).append((p, torch.zeros_like(p)))

        @torch.no_grad()
        def step(self):
            for pairs in self.groups.values():
                ps, vs = [p for p, _ in pairs], [v for _, v in pairs]
                gs = [p.grad for p in ps]
                torch._foreach_mul_(vs, self.mu)
                torch._foreach_add_(vs, gs)
                us = torch._foreach_add(gs, vs, alpha=self.mu)
                x = torch.stack([u.t() if u.shape[0] > u.shape[1] else u for u in us])
                x = x / (x.flatten(1).norm(dim=1) + 1e-7)[:, None, None]
                for _ in range(5):
                    g = torch.bmm(x, x.transpose(1, 2))
                    poly = torch.baddbmm(g, g, g, beta=-4.775, alpha=2.0315)
                    x = torch.baddbmm(x, poly, x, beta=3.4445)
                torch._foreach_mul_(ps, 1 - self.lr * self.decay)
                steps = [d.t() if p.shape[0] > p.shape[1] else d for p, d in zip(ps, x.unbind())]
                for p, d in zip(ps, steps):
                    p.add_(d, alpha=-self.lr * max(1.0, p.shape[0] / p.shape[1]) ** 0.5)

    def stepper(kind, mode):
        """A training step of `kind` of optimizer."""
        torch.manual_seed(0)
        net = Net().to(DEV)
        params = list(net.parameters())
        matrices, vectors = [p for p in params if p.dim() > 1], [p for p in params if p.dim() == 1]
        fused = dict(fused=True, capturable=True) if CUDA else {}
        if kind == "sgd":
            optimizers = [torch.optim.SGD(params, lr=0.1, fused=CUDA)]
        elif kind == "adamw":
            optimizers = [torch.optim.AdamW(params, lr=3e-3, weight_decay=0.01, **fused)]
        else:
            optimizers = [torch.optim.AdamW(vectors, lr=3e-3, weight_decay=0.01, **fused), Muon(matrices)]
            if mode:
                torch._dynamo.reset()
        forward = torch.compile(net, mode=mode, dynamic=False) if mode else net
        if mode and kind == "muon":
            optimizers[1].step = torch.compile(optimizers[1].step, mode=mode, dynamic=False)

        def step():
            tokens, targets = batch()
            for p in params:
                p.grad = None
            loss = forward(tokens, targets)
            loss.backward()
            if kind != "sgd":
                torch.nn.utils.clip_grad_norm_(params, 1.0, foreach=True)
            for optimizer in optimizers:
                optimizer.step()
            return loss

        return step

    for tf32 in (False, True):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        said = "Tf32" if tf32 else "F32"
        for kind in ("sgd", "adamw", "muon"):
            modes = [None]
            if CUDA and not args.no_compile:
                modes += ["default", "max-autotune-no-cudagraphs"]
            for mode in modes:
                if mode and mode.startswith("max") and kind != "adamw":
                    continue

                def measure():
                    torch._dynamo.reset()
                    step = stepper(kind, mode)
                    return captured(step, 8, repeats=100 if CUDA else 2)

                how = {None: "captured", "default": "compiled, captured"}.get(mode, "max-autotune, captured")
                figure(f"b13 {said}/{kind} [{how}]", measure)
    # That the peer learns at all, as the graph must: the loss after 100 steps.
    torch.backends.cuda.matmul.allow_tf32 = False
    for kind in ("adamw", "muon"):
        try:
            step = stepper(kind, None)
            losses = [float(step().detach()) for _ in range(100)]
            say(f"# b13 {kind}: loss {losses[0]:.3f} to {losses[-1]:.4f} in 100 steps")
        except Exception as error:
            say(f"# b13 {kind}: ERROR {error}")


# --------------------------------------------------------------------------------------------------- B1 to B3: g/seed_grid.ron


def grid():
    torch = setup_torch()
    for n in (16,) if SMALL else (1000, 10_000, 100_000):
        C, S, D = 100, 16, 64
        logits, u = torch.randn(n, C, device=DEV), torch.rand(n, C, device=DEV).clamp_(1e-6, 1 - 1e-6)
        gamma, v = torch.randn(n, device=DEV), torch.rand(n, device=DEV)
        table = torch.randn(n, S, D, device=DEV)
        at = torch.stack([torch.randint(0, S, (n,), device=DEV), torch.randint(0, D, (n,), device=DEV)], 1)
        row = torch.arange(n, device=DEV)
        us = 3 + n / 2000
        rows = {
            "gumbel_argmax": lambda: (logits - torch.log(-torch.log(u))).argmax(1),
            "gumbel_argmax_drawn": lambda: (logits - torch.log(-torch.log(torch.rand_like(logits).clamp_(1e-7, 1 - 1e-7)))).argmax(1),
            "sigmoid_bernoulli": lambda: (v <= torch.sigmoid(gamma * 2.0)).float(),
            "sigmoid_bernoulli_drawn": lambda: (torch.rand_like(gamma) <= torch.sigmoid(gamma * 2.0)).float(),
            "bits_by_100": lambda: (u <= torch.sigmoid(logits * 2.0)).float(),
            "batch_gather": lambda: table[row, at[:, 0], at[:, 1]],
            "batch_gather_spelled": lambda: table.view(-1)[row * (S * D) + at[:, 0] * D + at[:, 1]],
        }
        for stage, call in rows.items():
            # Compiled alone: only the draws of given numbers, whose chains a compiler can join.
            both_ways(f"grid N={n}/{stage}", call, us, compiled=n == 100_000 or stage == "gumbel_argmax")


# ------------------------------------------------------------------------------------------- B10: g/vibe_*.ron, benches/ops/losses.ron


def b10():
    torch = setup_torch()
    import torch.nn.functional as F

    f16, bf16 = torch.float16, torch.bfloat16

    def R(*shape, dtype=torch.float32):
        return torch.randn(*shape, device=DEV).to(dtype)

    def section(work):
        """Errors in making operands are lines, too; what a section held is freed behind it."""
        try:
            work()
        except Exception as error:
            say(f"{work.__name__}: ERROR {type(error).__name__}: {str(error)[:200]}")
        if CUDA:
            torch.cuda.empty_cache()

    def maps():
        x = R(*shrunk(4096, 4096), dtype=bf16)
        both_ways("maps B4H32S4096D128/relu_squared", lambda: F.relu(x).square(), 25)

    def rotary():
        for b, h, s, d in ((4, 32, 4096, 128), (4, 8, 2048, 128)):
            tag = f"maps B{b}H{h}S{s}D{d}"
            b, h, s, d = shrunk(b, h, s, d)
            q, k = R(b, h, s, d, dtype=bf16), R(b, h, s, d, dtype=bf16)
            angle = torch.arange(s, device=DEV)[:, None] * 1e4 ** (-torch.arange(0, d, 2, device=DEV) / d)
            cos, sin = angle.cos(), angle.sin()

            def turned(x):
                a, c = x.float().chunk(2, -1)
                return torch.cat((a * cos + c * sin, c * cos - a * sin), -1).to(bf16)

            both_ways(f"{tag}/rotary_qk_tables", lambda: (turned(q), turned(k)), 400)

    def rows():
        x, dy = R(*shrunk(4096, 8192), dtype=f16), R(*shrunk(4096, 8192), dtype=f16)
        t = torch.randint(0, x.shape[1], (x.shape[0],), device=DEV)
        tag = "rows 4096x8192 f16"

        def soft_both():
            y = F.softmax(x, -1)
            return y, torch._softmax_backward_data(dy, y, -1, f16)

        def soft_formula():
            y = F.softmax(x.float(), -1)
            y16, g = y.to(f16), dy.float()
            return y16, (y * (g - (y * g).sum(-1, keepdim=True))).to(f16)

        def log_both():
            y = F.log_softmax(x, -1)
            return y, torch._log_softmax_backward_data(dy, y, -1, f16)

        def log_formula():
            y, g = F.log_softmax(x.float(), -1), dy.float()
            return y.to(f16), (g - y.exp() * g.sum(-1, keepdim=True)).to(f16)

        both_ways(f"{tag}/softmax", lambda: F.softmax(x, -1), 50)
        y = F.softmax(x, -1)
        both_ways(f"{tag}/softmax_backward", lambda: torch._softmax_backward_data(dy, y, -1, f16), 60, compiled=False)
        both_ways(f"{tag}/softmax_both", soft_both, 100, compiled=False)
        compiled_only(f"{tag}/softmax_both", soft_formula, 100)
        both_ways(f"{tag}/log_softmax", lambda: F.log_softmax(x, -1), 50)
        both_ways(f"{tag}/log_softmax_both", log_both, 100, compiled=False)
        compiled_only(f"{tag}/log_softmax_both", log_formula, 100)
        losses(tag, x, t, 100)

    def losses(tag, x, t, us):
        x = x.requires_grad_()

        def alone():
            with torch.no_grad():
                return F.cross_entropy(x, t)

        def alone_wide():
            with torch.no_grad():
                return F.cross_entropy(x.float(), t)

        def with_gradient(loss):
            return lambda: torch.autograd.grad(loss(x), x)

        both_ways(f"{tag}/cross_entropy", alone, us, compiled=False)
        compiled_only(f"{tag}/cross_entropy", alone_wide, us)
        both_ways(f"{tag}/cross_entropy_both", with_gradient(lambda z: F.cross_entropy(z, t)), us, compiled=False)
        if CUDA and not args.no_compile:
            def measure():
                torch._dynamo.reset()
                loss = torch.compile(lambda z: F.cross_entropy(z.float(), t), dynamic=False)
                return captured(with_gradient(loss), calls_of(us))

            figure(f"{tag}/cross_entropy_both [compiled, captured]", measure)

    def long_losses():
        n, c = shrunk(8192, 32000)
        losses("rows 8192x32000 bf16", R(n, c, dtype=bf16), torch.randint(0, c, (n,), device=DEV), 800)

    def norms():
        for r, c in ((4096, 4096), (4096, 8192)):
            tag = f"norms {r}x{c} bf16"
            r, c = shrunk(r, c)
            x, dy = R(r, c, dtype=bf16).requires_grad_(), R(r, c, dtype=bf16)
            w, b = (R(c, dtype=bf16) * 0.1 + 1).requires_grad_(), (R(c, dtype=bf16) * 0.1).requires_grad_()

            def rms(x, w):
                return F.rms_norm(x, (c,), w, 1e-6)

            def layer(x, w, b):
                return F.layer_norm(x, (c,), w, b, 1e-5)

            def no_grad(call):
                def run():
                    with torch.no_grad():
                        return call()
                return run

            both_ways(f"{tag}/rms_norm", no_grad(lambda: rms(x, w)), 30)
            both_ways(f"{tag}/layer_norm", no_grad(lambda: layer(x, w, b)), 30)
            for name, call, of in (("rms_norm_both", rms, (x, w)), ("layer_norm_both", layer, (x, w, b))):
                both_ways(f"{tag}/{name}", lambda: torch.autograd.grad(call(*of), of, dy), 120, compiled=False)
                if CUDA and not args.no_compile:
                    def measure():
                        torch._dynamo.reset()
                        fast = torch.compile(call, dynamic=False)
                        return captured(lambda: torch.autograd.grad(fast(*of), of, dy), calls_of(120))

                    figure(f"{tag}/{name} [compiled, captured]", measure)

    def topk():
        for r, c, k in ((1, 50304, 50), (32, 32000, 40), (32, 50304, 50)):
            x = R(r, c if not SMALL else 64)
            both_ways(f"topk/topk_{r}x{c}_{k}", lambda: x.topk(k), 60, compiled=False)

    def adamw():
        for dtype, said in ((f16, "f16"), (torch.float32, "f32")):
            p = R(*shrunk(4096, 1024), dtype=dtype).requires_grad_()
            p.grad = R(*p.shape, dtype=dtype)
            fused = dict(fused=True, capturable=True) if CUDA else {}
            optimizer = torch.optim.AdamW([p], lr=1e-3, weight_decay=0.01, **fused)
            both_ways(f"adamw 4096x1024/adamw_{said}", optimizer.step, 20, compiled=False)
            if CUDA:
                rate = torch.tensor(1e-3, device=DEV)
                foreach = torch.optim.AdamW([p], lr=rate, weight_decay=0.01, foreach=True, capturable=True)
                compiled_only(f"adamw 4096x1024/adamw_{said}", lambda: foreach.step(), 20)

    def embedding():
        m, v, d = (4096, 50304, 768) if not SMALL else (16, 64, 16)
        table, gain = (R(v, d) * d**-0.5).to(bf16).requires_grad_(), (R(d) * 0.1 + 1).to(bf16).requires_grad_()
        dy, tokens = R(m, d, dtype=bf16), torch.randint(0, v, (m,), device=DEV)

        def call(table, gain):
            return F.rms_norm(F.embedding(tokens, table), (d,), gain, 1e-6)

        def alone():
            with torch.no_grad():
                return call(table, gain)

        def plain():
            with torch.no_grad():
                return F.rms_norm(F.embedding(tokens, table), (d,), None, 1e-6)

        tag = "embedding 4096 of 50304x768 bf16"
        both_ways(f"{tag}/embedding_rms_norm", alone, 10)
        both_ways(f"{tag}/embedding_rms_norm_plain", plain, 10)
        both_ways(f"{tag}/embedding_rms_norm_both", lambda: torch.autograd.grad(call(table, gain), (table, gain), dy), 150, compiled=False)
        if CUDA and not args.no_compile:
            def measure():
                torch._dynamo.reset()
                fast = torch.compile(call, dynamic=False)
                return captured(lambda: torch.autograd.grad(fast(table, gain), (table, gain), dy), calls_of(150))

            figure(f"{tag}/embedding_rms_norm_both [compiled, captured]", measure)

    def compiled_only(name, call, us):
        if CUDA and not args.no_compile:
            def measure():
                torch._dynamo.reset()
                return captured(torch.compile(call, dynamic=False), calls_of(us))

            figure(f"{name} [compiled, captured]", measure)
        elif not CUDA:
            figure(f"{name} [formula]", lambda: captured(call, 1))

    for work in (maps, rotary, rows, norms, topk, adamw, embedding, long_losses):
        section(work)


# ------------------------------------------------------------- the rest of B10: Newton-Schulz, products and attention (vibe_newton, square, causal)


def extra():
    torch = setup_torch()
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel

    for n in (2048, 4096):
        n_, = shrunk(n)
        for dtype, said in ((torch.float16, "f16"), (torch.bfloat16, "bf16")):
            x0 = torch.randn(n_, n_, device=DEV).to(dtype)

            def newton():
                x = x0 / (x0.float().norm() + 1e-7).to(dtype)
                for _ in range(5):
                    g = x @ x.t()
                    poly = torch.addmm(g, g, g, beta=-4.775, alpha=2.0315)
                    x = torch.addmm(x, poly, x, beta=3.4445)
                return x

            both_ways(f"newton {n}/newton_schulz_{said}", newton, 500 if n == 2048 else 3500, compiled=False)
    for n in (2048, 4096, 8192):
        n_, = shrunk(n)
        x, y = torch.randn(n_, n_, device=DEV).half(), torch.randn(n_, n_, device=DEV).half()
        us = 25 * (n / 2048) ** 3
        if CUDA:
            time.sleep(1)
        figure(f"square {n} f16/product [captured]", lambda: captured(lambda: x @ y, max(1, min(16, int(4000 / us))), repeats=50))
    b, h, t, d = (32, 10, 2048, 128) if not SMALL else (1, 2, 16, 16)
    q, k, v = (torch.randn(b, h, t, d, device=DEV).bfloat16().requires_grad_() for _ in range(3))
    dy = torch.randn(b, h, t, d, device=DEV).bfloat16()
    backends = [("cudnn", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)] if CUDA else [("math", SDPBackend.MATH)]
    for said, backend in backends:
        def forward():
            with torch.no_grad(), sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, k, v, is_causal=True)

        def both():
            with sdpa_kernel(backend):
                return torch.autograd.grad(F.scaled_dot_product_attention(q, k, v, is_causal=True), (q, k, v), dy)

        figure(f"causal B32H10T2048D128 bf16/attention [{said}, captured]", lambda: captured(forward, 4, repeats=50))
        figure(f"causal B32H10T2048D128 bf16/gradient [{said}, captured]", lambda: captured(both, 1, repeats=50))


# ------------------------------------------------------------------ B4, B5: graphs/indexing_bench.ron, g/gather_large.ron, g/duplicates.ron


def idx():
    torch = setup_torch()
    for stage, (r, c, m) in {"small": (1024, 256, 128), "middle": (4096, 1024, 512), "large": (16384, 1024, 2048)}.items():
        r, c, m = shrunk(r, c, m)
        for wide, said in ((torch.int64, ""), (torch.int32, ", i32")):
            i = torch.randint(0, r, (m,), device=DEV).to(wide)
            table, updates, sums = torch.randn(r, c, device=DEV).half(), torch.randn(m, c, device=DEV), torch.zeros(r, c, device=DEV)
            figure(f"indexing/gather_{stage} [captured{said}]", lambda: captured(lambda: table.index_select(0, i), 320))
            figure(f"indexing/add_{stage} [captured{said}]", lambda: captured(lambda: sums.index_add_(0, i, updates), 320))
    r, c, m = (16384, 1024, 2048) if not SMALL else (64, 16, 16)
    updates, sums = torch.randn(m, c, device=DEV), torch.zeros(r, c, device=DEV)
    numbers = {
        "unique": torch.arange(m, device=DEV) * 2731 % r,
        "random": torch.randint(0, r, (m,), device=DEV),
        "to_two_rows": torch.arange(m, device=DEV) % 2,
        "to_one_row": torch.zeros(m, dtype=torch.int64, device=DEV),
    }
    for stage, i in numbers.items():
        figure(f"duplicates/{stage} [captured]", lambda: captured(lambda: sums.index_add_(0, i, updates), 64))
    del updates, sums
    n = 1 << 20
    for c in (256, 1024):
        rows, width = (n, c) if not SMALL else (64, 16)
        i = torch.randint(0, rows, (rows,), device=DEV)
        table = torch.randn(rows, width, device=DEV, dtype=torch.float16)
        out = torch.empty_like(table)
        figure(f"indices 1Mi x {c}/gather_rows [captured]", lambda: captured(lambda: torch.index_select(table, 0, i, out=out), 4, repeats=50))
        del table, out
    if CUDA:
        a, b = torch.empty(1 << 30, dtype=torch.uint8, device=DEV), torch.empty(1 << 30, dtype=torch.uint8, device=DEV)
        times = captured(lambda: b.copy_(a), 4, repeats=50)
        say(f"# copy of 1 GiB: {2 * (1 << 30) / statistics.median(times) / 1e3:.0f} GB/s read and written")


# --------------------------------------------------------------------------------------- scans: g/scan.ron, graphs/gru.ron with T = 2000


def scan():
    try:
        import jax
        import jax.numpy as jnp

        if not CUDA:
            jax.config.update("jax_platforms", "cpu")
        jax_scans(jax, jnp)
        jax_gru_step(jax, jnp)
    except Exception as error:
        say(f"scan/jax: ERROR {type(error).__name__}: {str(error)[:200]}")
    cudnn_scans()


def clocked(call, repeats):
    """Microseconds by the host's clock: these calls take milliseconds."""
    import jax

    for _ in range(3):
        jax.block_until_ready(call())
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(call())
        times.append((time.perf_counter() - start) * 1e6)
    return times


def gru_cell(jax, jnp, h, z, u, c):
    """`gru_step` of layers/recurrent.ron."""
    n = h.shape[-1]
    g = h @ u + c
    r = jax.nn.sigmoid(z[:, :n] + g[:, :n])
    k = jax.nn.sigmoid(z[:, n : 2 * n] + g[:, n : 2 * n])
    new = jnp.tanh(z[:, 2 * n :] + r * g[:, 2 * n :])
    return (1 - k) * new + k * h


def jax_scans(jax, jnp):
    B, T, I = (64, 2000, 48) if not SMALL else (4, 40, 8)
    repeats = 15 if CUDA else 2
    for H in (256, 32) if not SMALL else (16,):
        keys = jax.random.split(jax.random.PRNGKey(0), 6)
        # Positions first, which suits `scan`.
        x, dy = jax.random.normal(keys[0], (T, B, I)), jax.random.normal(keys[1], (T, B, H))
        bound = H**-0.5
        draw = lambda key, *shape: jax.random.uniform(key, shape, minval=-bound, maxval=bound)
        given = dict(w=draw(keys[2], I, 3 * H), u=draw(keys[3], H, 3 * H), b=draw(keys[4], 3 * H), c=draw(keys[5], 3 * H))

        def run(p, x, unroll):
            z = x @ p["w"] + p["b"]

            def step(h, z):
                h = gru_cell(jax, jnp, h, z, p["u"], p["c"])
                return h, h

            return jax.lax.scan(step, jnp.zeros((B, H)), z, unroll=unroll)

        for precision, said in (("highest", "F32"), ("tensorfloat32", "Tf32")):
            for unroll in (1, 8, 32):
                tag = f"scan H={H} {said}"
                if unroll == 32 and (H != 256 or SMALL):
                    continue
                with jax.default_matmul_precision(precision):
                    forward = jax.jit(lambda p, x: run(p, x, unroll)[0])
                    both = jax.jit(jax.value_and_grad(lambda p, x, dy: jnp.sum(run(p, x, unroll)[1] * dy)))
                    figure(f"{tag}/both [jax, unroll {unroll}]", lambda: clocked(lambda: both(given, x, dy), repeats))
                    if unroll == 8:
                        figure(f"{tag}/forward [jax, unroll {unroll}]", lambda: clocked(lambda: forward(given, x), repeats))


def jax_gru_step(jax, jnp):
    """The training step of graphs/gru.ron: bytes, two GRUs, a linear layer, cross-entropy, clipping and AdamW."""
    import optax

    B, T, D, V = (64, 2000, 48, 256) if not SMALL else (2, 40, 8, 256)
    for H in (256, 32) if not SMALL else (16,):
        keys = jax.random.split(jax.random.PRNGKey(1), 12)
        bound = H**-0.5
        draw = lambda key, *shape: jax.random.uniform(key, shape, minval=-bound, maxval=bound)

        def layer(i, width):
            return dict(w=draw(keys[i], width, 3 * H), u=draw(keys[i + 1], H, 3 * H), b=draw(keys[i + 2], 3 * H), c=draw(keys[i + 3], 3 * H))

        params = dict(embed=jax.random.normal(keys[0], (V, D)), one=layer(1, D), two=layer(5, H), head=draw(keys[9], H, V), bias=draw(keys[10], V))
        optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(4e-3, weight_decay=0.01))
        state = optimizer.init(params)
        tokens = jax.random.randint(keys[11], (T + 1, B), 0, V)

        def sequence(p, x):
            z = x @ p["w"] + p["b"]

            def step(h, z):
                h = gru_cell(jax, jnp, h, z, p["u"], p["c"])
                return h, h

            return jax.lax.scan(step, jnp.zeros((B, H)), z, unroll=8)[1]

        def loss(p):
            y = sequence(p["two"], sequence(p["one"], p["embed"][tokens[:-1]]))
            return optax.softmax_cross_entropy_with_integer_labels(y @ p["head"] + p["bias"], tokens[1:]).mean()

        def step(p, s):
            value, gradient = jax.value_and_grad(loss)(p)
            updates, s = optimizer.update(gradient, s, p)
            return optax.apply_updates(p, updates), s, value

        for precision, said in (("highest", "F32"), ("tensorfloat32", "Tf32")):
            with jax.default_matmul_precision(precision):
                fast = jax.jit(step)
                figure(f"gru T=2000 H={H} {said}/train [jax, unroll 8]", lambda: clocked(lambda: fast(params, state), 10 if CUDA else 1))


def cudnn_scans():
    try:
        torch = setup_torch()
        B, T, I = (64, 2000, 48) if not SMALL else (4, 40, 8)
        for H in (256, 32) if not SMALL else (16,):
            x, dy = torch.randn(T, B, I, device=DEV), torch.randn(T, B, H, device=DEV)
            for tf32 in (False, True):
                torch.backends.cudnn.allow_tf32 = tf32
                gru = torch.nn.GRU(I, H).to(DEV)

                def both():
                    return torch.autograd.grad(gru(x)[0], list(gru.parameters()), dy)

                def measure():
                    for _ in range(3):
                        both()
                    times = []
                    for _ in range(15 if CUDA else 1):
                        if CUDA:
                            torch.cuda.synchronize()
                        start = time.perf_counter()
                        both()
                        if CUDA:
                            torch.cuda.synchronize()
                        times.append((time.perf_counter() - start) * 1e6)
                    return times

                figure(f"scan H={H} {'Tf32' if tf32 else 'F32'}/both [cuDNN]", measure)
    except Exception as error:
        say(f"scan/cudnn: ERROR {type(error).__name__}: {str(error)[:200]}")


SECTIONS = {"b13": b13, "grid": grid, "b10": b10, "extra": extra, "idx": idx, "scan": scan}


def main():
    chosen = list(SECTIONS) if "all" in args.sections else args.sections
    for name in chosen:
        if name not in SECTIONS:
            say(f"{name}: ERROR no such section; known are {', '.join(SECTIONS)}")
            continue
        start = time.time()
        try:
            SECTIONS[name]()
        except Exception as error:
            say(f"{name}: ERROR {type(error).__name__}: {str(error)[:300]}")
        say(f"# section {name} took {time.time() - start:.1f} s")


if __name__ == "__main__":
    main()
