"""Expected numbers of convolution, pooling, padding and resizing, from PyTorch: python tests/examples/vision.py"""

import torch
import torch.nn.functional as F
from recording import Recording

record = Recording("vision")
case = record.case


def waves(*shape, shift=0.0):
    n = torch.Size(shape).numel()
    return (torch.arange(n, dtype=torch.float64) * 1.7 + shift).sin().reshape(shape).float().tolist()


def conv():
    image, square = ("f32", waves(2, 3, 6, 5)), ("f32", waves(4, 3, 3, 2, shift=0.3))
    bias = ("f32", waves(4, shift=2.0))
    case("an image", "conv(a, b)", [image, square], F.conv2d)
    case("a bias", "conv(a, b, c)", [image, square, bias], F.conv2d)
    case("steps and a border", "conv(a, b, c, stride=[2, 1], padding=[1, 2])", [image, square, bias],
         lambda x, w, b: F.conv2d(x, w, b, stride=(2, 1), padding=(1, 2)))
    case("holes", "conv(a, b, dilation=2, padding=1, stride=3)", [image, square],
         lambda x, w: F.conv2d(x, w, dilation=2, padding=1, stride=3))
    case("uneven borders", "conv(a, b, padding=[1, 0, 0, 2])", [image, square],
         lambda x, w: F.conv2d(F.pad(x, (0, 2, 1, 0)), w))
    case("a border wider than the window", "conv(a, b, padding=4)", [("f32", waves(1, 2, 4)), ("f32", waves(1, 2, 2))],
         lambda x, w: F.conv1d(x, w, padding=4))
    case("in groups", "conv(a, b, groups=2, stride=2)", [("f32", waves(2, 4, 5, 5)), ("f32", waves(6, 2, 2, 3))],
         lambda x, w: F.conv2d(x, w, groups=2, stride=2))
    case("a window for each channel", "conv(a, b, groups=4, padding=1)",
         [("f32", waves(1, 4, 4, 3)), ("f32", waves(4, 1, 3, 3))], lambda x, w: F.conv2d(x, w, groups=4, padding=1))
    case("a signal", "conv(a, b, stride=2, padding=1)", [("f32", waves(2, 2, 7)), ("f32", waves(3, 2, 3))],
         lambda x, w: F.conv1d(x, w, stride=2, padding=1))
    case("a volume", "conv(a, b, padding=1, stride=[1, 2, 1])", [("f32", waves(1, 2, 3, 4, 3)), ("f32", waves(2, 2, 2, 3, 2))],
         lambda x, w: F.conv3d(x, w, padding=1, stride=(1, 2, 1)))
    case("products of channels", "conv(a, b)", [("f32", waves(2, 3, 2, 2)), ("f32", waves(2, 3, 1, 1))], F.conv2d)
    case("elements behind the last window", "conv(a, b, stride=3)", [("f32", waves(1, 1, 9)), ("f32", waves(1, 1, 2))],
         lambda x, w: F.conv1d(x, w, stride=3))


def transposed():
    case("an image", "conv_transpose(a, b, c)",
         [("f32", waves(2, 4, 3, 3)), ("f32", waves(4, 2, 3, 2)), ("f32", waves(2))], F.conv_transpose2d)
    case("steps, a border and extra", "conv_transpose(a, b, stride=[3, 2], padding=1, extra=[1, 0])",
         [("f32", waves(1, 2, 3, 4)), ("f32", waves(2, 3, 3, 3))],
         lambda x, w: F.conv_transpose2d(x, w, stride=(3, 2), padding=1, output_padding=(1, 0)))
    case("holes, in groups", "conv_transpose(a, b, dilation=2, groups=2)",
         [("f32", waves(2, 4, 4)), ("f32", waves(4, 3, 2))], lambda x, w: F.conv_transpose1d(x, w, dilation=2, groups=2))


def pools():
    image = ("f32", waves(2, 2, 6, 5))
    case("an image", "max_pool(a, size=2)", [image], lambda x: F.max_pool2d(x, 2))
    case("overlapping, with a border", "max_pool(a, size=3, stride=2, padding=1)", [image],
         lambda x: F.max_pool2d(x, 3, 2, 1))
    case("holes", "max_pool(a, size=[2, 3], stride=1, dilation=[3, 1])", [image],
         lambda x: F.max_pool2d(x, (2, 3), 1, 0, (3, 1)))
    case("a volume", "max_pool(a, size=2)", [("f32", waves(1, 2, 4, 2, 3))], lambda x: F.max_pool3d(x, 2))
    case("an image", "avg_pool(a, size=2)", [image], lambda x: F.avg_pool2d(x, 2))
    case("a border counts", "avg_pool(a, size=3, stride=2, padding=1)", [image], lambda x: F.avg_pool2d(x, 3, 2, 1))
    case("a border does not count", "avg_pool(a, size=3, stride=2, padding=1, count_padding=false)", [image],
         lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False))
    case("a signal", "avg_pool(a, size=3, stride=1)", [("f32", waves(1, 3, 7))], lambda x: F.avg_pool1d(x, 3, 1))
    case("even windows", "adaptive_avg_pool(a, size=[3, 5])", [image], lambda x: F.adaptive_avg_pool2d(x, (3, 5)))
    case("uneven windows", "adaptive_avg_pool(a, size=[4, 3])", [image], lambda x: F.adaptive_avg_pool2d(x, (4, 3)))
    for sizes in ([3, 5], [4, 3], [1, 1], [6, 4]):
        case(f"{sizes} windows", f"adaptive_max_pool(a, size={sizes})", [image],
             lambda x, sizes=sizes: F.adaptive_max_pool2d(x, sizes))
    case("more windows than elements", "adaptive_max_pool(a, size=4)", [("f32", waves(1, 2, 3))],
         lambda x: F.adaptive_max_pool1d(x, 4))
    case("more windows than elements", "adaptive_avg_pool(a, size=4)", [("f32", waves(1, 2, 3))],
         lambda x: F.adaptive_avg_pool1d(x, 4))


def moves():
    image = ("f32", waves(1, 2, 4, 3))
    case("rows and columns", "flip(a, axis=[2, 3])", [image], lambda x: x.flip(2, 3))
    for mode, name in [("reflect", "reflect"), ("edge", "replicate"), ("wrap", "circular")]:
        case(mode, f'pad(a, before=[0, 0, 2, 1], after=[0, 0, 1, 2], mode="{mode}")', [image],
             lambda x, name=name: F.pad(x, (1, 2, 2, 1), mode=name))
    case("a value", "pad(a, before=[0, 0, 1, 0], value=-2)", [image], lambda x: F.pad(x, (0, 0, 1, 1), value=-2.0))
    case("larger", "resize(a, size=[7, 5])", [image], lambda x: F.interpolate(x, (7, 5)))
    case("smaller", "resize(a, size=[3, 2])", [image], lambda x: F.interpolate(x, (3, 2)))
    case("larger, linear", 'resize(a, size=[7, 5], mode="linear")', [image],
         lambda x: F.interpolate(x, (7, 5), mode="bilinear"))
    case("smaller, linear", 'resize(a, size=[3, 2], mode="linear")', [image],
         lambda x: F.interpolate(x, (3, 2), mode="bilinear"))
    case("between corners", 'resize(a, size=[7, 5], mode="linear", corners=true)', [image],
         lambda x: F.interpolate(x, (7, 5), mode="bilinear", align_corners=True))


conv()
transposed()
pools()
moves()
record.write()
