# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's Python side computes for the networks, in double precision: torchvision's own
where it has them, the others written down here from their description in docs/models.md.
network_test.cpp compares with the numbers.

Run as: python3 tests/nets/network_numbers.py > tests/nets/network_numbers.json
Needs torch, torchvision 0.26 and numpy.
"""
import json

import torch
import torch.nn.functional as F
from torch import nn

CASES = [  # network, batch, channels, height, width (of a text: its length), classes
    ("mlp", 3, 1, 5, 6, 4),
    ("cnn", 4, 3, 9, 13, 10),
    ("cnn", 2, 1, 16, 16, 10),
    ("resnet20", 3, 3, 17, 20, 10),
    ("resnet32", 2, 3, 17, 20, 10),
    ("resnet44", 2, 3, 12, 12, 10),
    ("resnet56", 2, 3, 12, 12, 10),
    ("resnet18", 3, 3, 64, 45, 10),
    ("resnet34", 2, 3, 40, 40, 7),
    ("resnet50", 3, 3, 64, 64, 7),
    ("resnet101", 2, 3, 40, 40, 7),
    ("resnet152", 2, 3, 40, 40, 7),
    ("vit-tiny", 2, 3, 16, 16, 10),
    ("vit-tiny", 2, 3, 96, 96, 7),
    ("transformer", 3, 1, 1, 6, 11),
]
TORCHVISION = ["resnet18", "resnet34", "resnet50", "resnet101", "resnet152"]
SMALL_RESNETS = {"resnet20": 3, "resnet32": 5, "resnet44": 7, "resnet56": 9}
SIZES = {"layers": 3, "embedding": 24, "heads": 4}  # of the transformer
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


class SmallResnet(nn.Module):
    def __init__(self, channels, blocks, classes):
        super().__init__()
        self.blocks = blocks
        self.conv1 = nn.Conv2d(channels, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = self.group(16, 16, 1)
        self.layer2 = self.group(16, 32, 2)
        self.layer3 = self.group(32, 64, 2)
        self.fc = nn.Linear(64, classes)

    def group(self, inputs, to, stride):
        rest = [CifarBlock(to, to, 1) for _ in range(self.blocks - 1)]
        return nn.Sequential(CifarBlock(inputs, to, stride), *rest)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


class DecoderBlock(nn.Module):
    def __init__(self, embedding, heads):
        super().__init__()
        self.ln_1 = nn.LayerNorm(embedding, eps=1e-6)
        self.self_attention = nn.MultiheadAttention(embedding, heads, batch_first=True)
        self.ln_2 = nn.LayerNorm(embedding, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(embedding, 4 * embedding), nn.GELU(), nn.Identity(),
                                 nn.Linear(4 * embedding, embedding))

    def forward(self, x):
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        y = self.ln_1(x)
        x = x + self.self_attention(y, y, y, attn_mask=later, need_weights=False)[0]
        return x + self.mlp(self.ln_2(x))


class Transformer(nn.Module):
    """Radford et al. 2019 without dropout; the last layer is the embedding of the tokens."""

    def __init__(self, length, tokens, layers, embedding, heads):
        super().__init__()
        self.position_embedding = nn.Parameter(torch.empty(length, embedding))
        self.token_embedding = nn.Embedding(tokens, embedding)
        self.layers = nn.ModuleList(DecoderBlock(embedding, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(embedding, eps=1e-6)

    def forward(self, tokens):
        x = self.token_embedding(tokens) + self.position_embedding[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.norm(x) @ self.token_embedding.weight.T


def vision_models():
    """Asked for late: who needs only the others (autocast_numbers.py) needs no torchvision."""
    import torchvision
    return torchvision.models


def vit_tiny(size, classes):
    """Touvron et al. 2021, table 1; small images in patches of 4x4."""
    return vision_models().VisionTransformer(
        image_size=size, patch_size=4 if size < 96 else 16, num_layers=12, num_heads=3,
        hidden_dim=192, mlp_dim=768, num_classes=classes)


def network(name, channels, height, width, classes):
    if name in TORCHVISION:
        assert channels == 3
        return getattr(vision_models(), name)(num_classes=classes)
    if name in SMALL_RESNETS:
        return SmallResnet(channels, SMALL_RESNETS[name], classes)
    if name == "vit-tiny":
        assert channels == 3 and height == width
        return vit_tiny(height, classes)
    if name == "transformer":
        return Transformer(width, classes, **SIZES)
    return {"mlp": mlp, "cnn": cnn}[name](channels, height, width, classes)


def inputs_and_labels(name, batch, channels, height, width, classes):
    if name != "transformer":
        return numbers((batch, channels, height, width), order=7), torch.arange(batch) % classes
    i = torch.arange(batch * width).reshape(batch, width)
    return (31 * i * i + 17 * i) % classes, (7 * i * i + 3) % classes


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
    inputs, labels = inputs_and_labels(name, batch, channels, height, width, classes)
    case = {"network": name, "batch": batch, "channels": channels, "height": height, "width": width,
            "classes": classes, "rate": RATE, "layout": digest(layout(net))}
    if name == "transformer":
        case["sizes"] = SIZES
    net.eval()
    case["eval_scores"] = net(inputs)[0].flatten().tolist()
    net.train()
    scores = net(inputs)
    case["train_scores"] = scores[0].flatten().tolist()
    loss = F.cross_entropy(scores.flatten(0, -2), labels.flatten())
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
    case["scores_after_the_step"] = net(inputs)[0].flatten().tolist()
    return case


if __name__ == "__main__":
    torch.use_deterministic_algorithms(True)
    cases = [run(*case) for case in CASES]
    print("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]")
