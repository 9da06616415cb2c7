# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's Python side computes for the networks, in double precision: torchvision's own
resnet18 and resnet50, the others written down here from their description in docs/models.md.
network_test.cpp compares with the numbers.

Run as: python3 tests/model/network_numbers.py > tests/model/network_numbers.json
Needs torch, torchvision 0.26 and numpy.
"""
import json

import torch
import torch.nn.functional as F
import torchvision
from torch import nn

CASES = [  # network, batch, channels, height, width, classes
    ("mlp", 3, 1, 5, 6, 4),
    ("cnn", 4, 3, 9, 13, 10),
    ("cnn", 2, 1, 16, 16, 10),
    ("resnet20", 3, 3, 17, 20, 10),
    ("resnet18", 3, 3, 64, 45, 10),
    ("resnet50", 3, 3, 64, 64, 7),
]
RATE = 0.001  # of the one training step


def mlp(channels, height, width, classes):
    net = nn.Sequential()
    net.add_module("flatten", nn.Flatten())
    net.add_module("fc1", nn.Linear(channels * height * width, 256))
    net.add_module("relu1", nn.ReLU())
    net.add_module("fc2", nn.Linear(256, 256))
    net.add_module("relu2", nn.ReLU())
    net.add_module("fc3", nn.Linear(256, classes))
    return net


def cnn(channels, height, width, classes):
    net = nn.Sequential()
    for number, (inputs, to) in enumerate([(channels, 32), (32, 64), (64, 128)], start=1):
        net.add_module(f"conv{number}", nn.Conv2d(inputs, to, 3, padding=1, bias=False))
        net.add_module(f"bn{number}", nn.BatchNorm2d(to))
        net.add_module(f"relu{number}", nn.ReLU())
        if number < 3:
            net.add_module(f"pool{number}", nn.MaxPool2d(2))
    net.add_module("mean", nn.AdaptiveAvgPool2d(1))
    net.add_module("flatten", nn.Flatten())
    net.add_module("fc", nn.Linear(128, classes))
    return net


class CifarBlock(nn.Module):
    """He et al. 2016, section 4.2: two 3x3 convolutions, shortcut of option A."""

    def __init__(self, inputs, to, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, to, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(to)
        self.conv2 = nn.Conv2d(to, to, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(to)

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if y.shape != x.shape:
            zeros = torch.zeros_like(y)
            zeros[:, : x.shape[1]] = x[:, :, ::2, ::2]
            x = zeros
        return F.relu(x + y)


class Resnet20(nn.Module):
    def __init__(self, channels, height, width, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = self.group(16, 16, 1)
        self.layer2 = self.group(16, 32, 2)
        self.layer3 = self.group(32, 64, 2)
        self.fc = nn.Linear(64, classes)

    @staticmethod
    def group(inputs, to, stride):
        return nn.Sequential(CifarBlock(inputs, to, stride), CifarBlock(to, to, 1), CifarBlock(to, to, 1))

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


def network(name, channels, height, width, classes):
    if name in ("resnet18", "resnet50"):
        assert channels == 3
        return getattr(torchvision.models, name)(num_classes=classes)
    return {"mlp": mlp, "cnn": cnn, "resnet20": Resnet20}[name](channels, height, width, classes)


def numbers(shape, order):
    """Numbers in [-1, 1) that look random and come out the same in every language: integers first."""
    i = torch.arange(torch.Size(shape).numel(), dtype=torch.int64)
    return (((31 * i * i + 17 * i + 101 * order) % 2003).double() / 1001.5 - 1).reshape(shape)


def fill(net):
    """Values by the tensor's place in the order of names, and by the element's index."""
    with torch.no_grad():
        for order, (name, tensor) in enumerate(net.named_parameters()):
            values = numbers(tensor.shape, order)
            if tensor.dim() > 1:  # keeps the size of activations
                tensor.copy_(values * (6 / tensor[0].numel()) ** 0.5)
            else:
                tensor.copy_(values * 0.2 + (1 if name.endswith("weight") else 0))
        for order, (name, tensor) in enumerate(net.named_buffers()):
            if tensor.dim() > 0:  # not the number of batches
                values = numbers(tensor.shape, order)
                tensor.copy_(values * 0.3 + (1 if name.endswith("var") else 0))


def digest(text):
    """64-bit FNV-1a, as in daso/base/text.h."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def layout(net):
    """Names and shapes of all parameters, then of all buffers, a line each."""
    tensors = list(net.named_parameters()) + list(net.named_buffers())
    return "".join(f"{name} [{', '.join(map(str, tensor.shape))}]\n" for name, tensor in tensors)


def sample(items):
    """First, last, and three between."""
    last = len(items) - 1
    return [items[i] for i in sorted({0, last // 4, last // 2, 3 * last // 4, last})]


def run(name, batch, channels, height, width, classes):
    net = network(name, channels, height, width, classes).double()
    fill(net)
    images = numbers((batch, channels, height, width), order=7)
    labels = torch.arange(batch) % classes
    case = {"network": name, "batch": batch, "channels": channels, "height": height, "width": width,
            "classes": classes, "rate": RATE, "layout": digest(layout(net))}
    net.eval()
    case["eval_scores"] = net(images)[0].tolist()
    net.train()
    scores = net(images)
    case["train_scores"] = scores[0].tolist()
    loss = F.cross_entropy(scores, labels)
    loss.backward()
    case["loss"] = loss.item()
    case["gradient_norms"] = {n: p.grad.norm().item() for n, p in sample(list(net.named_parameters()))}
    case["gradient_norm"] = torch.cat([p.grad.flatten() for p in net.parameters()]).norm().item()
    running = [(n, b) for n, b in net.named_buffers() if b.is_floating_point()]
    case["running_norms"] = {n: b.norm().item() for n, b in sample(running)} if running else {}
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.sub_(RATE * parameter.grad)
    net.eval()
    case["scores_after_the_step"] = net(images)[0].tolist()
    return case


if __name__ == "__main__":
    torch.use_deterministic_algorithms(True)
    cases = [run(*case) for case in CASES]
    print("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]")
