"""A training step of graphs/mnist_cnn.ron in PyTorch: python mnist_cnn_torch.py [DEVICE] [THREADS]. Prints milliseconds."""

import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

device, threads = (sys.argv[1:] + ["cpu"])[0], int((sys.argv[2:] + ["2"])[0])
torch.set_num_threads(threads)
torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(1, 32, 3, bias=False), nn.BatchNorm2d(32), nn.ReLU(),
    nn.Conv2d(32, 64, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(64, 64, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25),
    nn.Flatten(), nn.Linear(1600, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10),
).to(device)
stepper = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=0.05)
x, y = torch.rand(128, 1, 28, 28, device=device), torch.randint(0, 10, (128,), device=device)
took = []
for _ in range(25):
    start = time.perf_counter()
    loss = F.cross_entropy(model(x), y)
    stepper.zero_grad()
    loss.backward()
    stepper.step()
    loss.item()
    took.append(time.perf_counter() - start)
print(f"{statistics.median(took[5:]) * 1e3:.1f} ms per step on {device}, {threads} threads of the CPU")
