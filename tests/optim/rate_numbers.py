# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's own schedulers make of the learning rate. learning_rate_test.cpp compares.

Run as, with a Python that has torch:
    python3 tests/optim/rate_numbers.py > tests/optim/rate_numbers.json
"""
import json
import warnings

warnings.filterwarnings("ignore")
import torch
from torch.optim import lr_scheduler

# Options as LearningRateOptions has them.
STEPS = [
    {"kind": "cosine", "peak": 0.4, "warmup_steps": 20, "steps": 200, "end": 0.01},
    {"kind": "cosine", "peak": 0.4, "warmup_steps": 0, "steps": 90, "end": 0.25},
    {"kind": "cosine", "peak": 3.2, "start": 0.1, "warmup_steps": 25, "steps": 120, "end": 0},
    {"kind": "step", "peak": 0.1, "warmup_steps": 0, "steps": 90, "gamma": 0.1, "drops": [30, 60, 80]},
    {"kind": "step", "peak": 1.6, "start": 0.1, "warmup_steps": 5, "steps": 90, "gamma": 0.3,
     "drops": [30, 31, 80]},
    {"kind": "polynomial", "peak": 10, "warmup_steps": 0, "steps": 70, "end": 0, "power": 2},
    {"kind": "polynomial", "peak": 0.5, "warmup_steps": 10, "steps": 70, "end": 0, "power": 0.9},
    {"kind": "constant", "peak": 0.2, "warmup_steps": 7, "steps": 20},
]
LOSSES = [2.3, 2.0, 1.99, 1.985, 1.97, 1.969, 1.2, 1.21, 1.19, 1.195, 1.19, float("inf"), 1.188,
          1.1, 1.1, 1.1, 1.1, 1.1, 1.1, 0.9]
PLATEAUS = [
    {"kind": "plateau", "peak": 0.1, "gamma": 0.1, "patience": 2, "threshold": 0.01},
    {"kind": "plateau", "peak": 1, "gamma": 0.5, "patience": 0, "threshold": 0.0},
    {"kind": "plateau", "peak": 0.8, "gamma": 0.3, "patience": 3, "threshold": 0.2},
]


def optimizer_of(peak):
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=peak)


def rates_of(optimizer, scheduler, steps):
    """The rate of each step."""
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


def after_warmup(optimizer, o):
    """Of the steps after the warm-up, counted from its end."""
    length = o["steps"] - o["warmup_steps"]
    if o["kind"] == "cosine":
        return lr_scheduler.CosineAnnealingLR(optimizer, length, eta_min=o["end"] * o["peak"])
    if o["kind"] == "polynomial":
        return lr_scheduler.PolynomialLR(optimizer, length, power=o["power"])
    if o["kind"] == "step":
        return lr_scheduler.MultiStepLR(optimizer, [d - o["warmup_steps"] for d in o["drops"]],
                                        gamma=o["gamma"])
    return lr_scheduler.ConstantLR(optimizer, factor=1)


def rates(o):
    warm = o["warmup_steps"]
    begin = []
    if warm > 0:
        # Step 0 is one increment above the start, and the last one of the warm-up has the peak.
        start = o.get("start", 0) / o["peak"]
        first = start + (1 - start) / warm
        optimizer = optimizer_of(o["peak"])
        begin = rates_of(optimizer, lr_scheduler.LinearLR(optimizer, first, 1, warm - 1), warm)
    optimizer = optimizer_of(o["peak"])
    return begin + rates_of(optimizer, after_warmup(optimizer, o), o["steps"] - warm)


def plateau_rates(o):
    optimizer = optimizer_of(o["peak"])
    scheduler = lr_scheduler.ReduceLROnPlateau(optimizer, factor=o["gamma"], patience=o["patience"],
                                               threshold=o["threshold"], threshold_mode="rel", eps=0)
    found = []
    for loss in LOSSES:
        scheduler.step(loss)
        found.append(optimizer.param_groups[0]["lr"])
    return found


# JSON has no infinity; 1e300 is no progress either.
print(json.dumps(
    {"steps": [{"options": o, "rates": rates(o)} for o in STEPS],
     "plateaus": [{"options": o, "losses": [min(loss, 1e300) for loss in LOSSES],
                   "rates": plateau_rates(o)} for o in PLATEAUS]},
    separators=(",", ":")))
