# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's own autocast makes of a loss and its gradients in bfloat16, for networks and inputs
that network_numbers.py fills. autocast_test.cpp compares.

Run as, with a Python that has torch and numpy:
    python3 tests/run/autocast_numbers.py > tests/run/autocast_numbers.json
"""
import json
import os
import pathlib
import sys

# Some virtual machines advertise AMX although its instructions trap; before PyTorch looks.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "nets"))
from network_numbers import fill, inputs_and_labels, network

CASES = [  # network, batch, channels, height, width, classes
    ("mlp", 8, 1, 6, 7, 5),
    ("cnn", 4, 3, 9, 10, 5),
]
# What gradients may differ by where another processor or library rounds elsewhere. With oneDNN and
# without it, those of the cnn differ by 0.01, those of the mlp by nothing; from those in float32
# by up to 0.16 and 0.08.
TOLERANCES = {"mlp": 0.005, "cnn": 0.02}
SAMPLES = 24  # of each gradient


def sample(gradient):
    """An odd stride, so that it goes through all columns."""
    stride = gradient.numel() // SAMPLES | 1
    values = gradient.flatten()[::stride].tolist()
    return {"stride": stride, "values": [float(f"{value:.8g}") for value in values]}


def run(name, batch, channels, height, width, classes):
    net = network(name, channels, height, width, classes)
    fill(net)
    inputs, labels = inputs_and_labels(name, batch, channels, height, width, classes)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = net(inputs.float())
    loss = F.cross_entropy(scores.float(), labels)
    loss.backward()
    return {"network": name, "batch": batch, "channels": channels, "height": height, "width": width,
            "classes": classes, "tolerance": TOLERANCES[name], "loss": loss.item(),
            "gradients": {n: sample(p.grad) for n, p in net.named_parameters()}}


if __name__ == "__main__":
    print("[\n" + ",\n".join(json.dumps(run(*case)) for case in CASES) + "\n]")
