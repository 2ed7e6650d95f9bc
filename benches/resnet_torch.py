"""Peers of docs/decisions/093-training-of-convolutions.md in PyTorch, in captured graphs: `python resnet_torch.py` on a GPU.

A training step of graphs/resnet.ron (128 pictures of 28 x 28) in milliseconds, then benches/transposed.ron in microseconds."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.backends.cudnn.benchmark = True


class Block(nn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        self.first, self.norm = nn.Conv2d(channels, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.second, self.last = nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        project = lambda: nn.Sequential(nn.Conv2d(channels, width, 1, stride, bias=False), nn.BatchNorm2d(width))
        self.around = project() if stride > 1 else nn.Identity()

    def forward(self, x):
        h = F.relu(self.norm(self.first(x)))
        return F.relu(self.last(self.second(h)) + self.around(x))


class ResNet(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        widths = [width, width, 2 * width, 4 * width, 8 * width]
        pairs = zip(widths, widths[1:], [1, 2, 2, 2])
        self.blocks = nn.Sequential(*(part for i, o, s in pairs for part in (Block(i, o, s), Block(o, o, 1))))
        self.out = nn.Linear(8 * width, 10)

    def forward(self, x):
        return self.out(self.blocks(self.stem(x)).mean((2, 3)))


def median_ms(call, n=1):
    """The median time of a call, of which n are captured together."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(6):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(n):
            call()
    times = []
    for _ in range(40):
        start, end = torch.cuda.Event(True), torch.cuda.Event(True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / n)
    return sorted(times)[len(times) // 2]


def training_step(tf32, order, is_half, is_compiled):
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    model = ResNet().cuda().to(memory_format=order)
    x = torch.rand(128, 1, 28, 28, device="cuda").to(memory_format=order)
    y = torch.randint(0, 10, (128,), device="cuda")
    stepper = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=0.05, fused=True, capturable=True)
    forward = torch.compile(model) if is_compiled else model

    def step():
        with torch.autocast("cuda", torch.bfloat16, enabled=is_half):
            loss = F.cross_entropy(forward(x), y)
        stepper.zero_grad()
        loss.backward()
        stepper.step()

    return median_ms(step)


def main():
    orders = {"channels first": torch.contiguous_format, "channels last": torch.channels_last}
    for order, memory in orders.items():
        for precision, tf32, is_half in [("f32", False, False), ("tf32", True, False), ("bf16", True, True)]:
            for is_compiled in [False, True]:
                ms = training_step(tf32, memory, is_half, is_compiled)
                print(f"resnet, {precision}, {order}, {'compiled' if is_compiled else 'eager'}: {ms:.3f} ms", flush=True)
    for dtype in [torch.float32, torch.bfloat16]:
        torch.backends.cudnn.allow_tf32 = True
        for order, memory in orders.items():
            x = torch.rand(16, 64, 64, 64, device="cuda", dtype=dtype).to(memory_format=memory)
            for size, settings in [(2, {}), (3, dict(padding=1, output_padding=1)), (4, dict(padding=1))]:
                w = torch.rand(64, 32, size, size, device="cuda", dtype=dtype)
                ms = median_ms(lambda: F.conv_transpose2d(x, w, stride=2, **settings), 10)
                print(f"transposed, {size} x {size}, {dtype}, {order}: {1000 * ms:.1f} us", flush=True)


main()
