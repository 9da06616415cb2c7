# SPDX-License-Identifier: Apache-2.0
"""LARS and LAMB in plain double precision, written down from the papers: You, Gitman, Ginsburg,
arXiv 1708.03888, algorithm 1, and You et al., arXiv 1904.00962, algorithm 2. Tensors of one
dimension or none take the learning rate as it is and do not decay. torch_cases_test.cpp compares.

Run as, with any Python 3:
    python3 tests/optim/layerwise_numbers.py > tests/optim/layerwise_numbers.json
"""
import json
import math
import random
import struct

SHAPES = {"convolution.weight": [3, 2, 2, 2], "norm.weight": [3], "norm.bias": [3],
          "temperature": [], "zeros": [4, 3], "head.weight": [37, 31], "head.bias": [37]}
STEPS = 3
LARS = [
    {},
    {"momentum": 0.9, "trust": 0.02},
    {"momentum": 0.9, "trust": 0.02, "weight_decay": 0.1},
    {"momentum": 0.5, "trust": 0.001, "weight_decay": 0.5, "no_decay": ["head_weight"]},
]
LAMB = [
    {},
    {"weight_decay": 0.1},
    {"weight_decay": 0.1, "beta1": 0.5, "beta2": 0.9, "epsilon": 1e-3},
    {"weight_decay": 0.3, "no_decay": ["head_weight", "zeros"]},
]


def single(value):
    """As float32 has it."""
    return struct.unpack("f", struct.pack("f", value))[0]


def tensors_of(dice, scale):
    return {name: [single(scale * dice.gauss(0, 1)) for _ in range(math.prod(shape))]
            for name, shape in SHAPES.items()}


def norm(values):
    return math.sqrt(math.fsum(value * value for value in values))


def decay_of(name, options):
    # The tests' module calls its tensors without dots.
    named = name.replace(".", "_") in options.get("no_decay", [])
    return 0 if named or len(SHAPES[name]) < 2 else options.get("weight_decay", 0)


def lars(name, w, g, state, rate, options):
    decay = decay_of(name, options)
    if len(SHAPES[name]) > 1 and norm(w) > 0 and norm(g) > 0:
        rate *= options.get("trust", 0.001) * norm(w) / (norm(g) + decay * norm(w))
    momentum = options.get("momentum", 0)
    velocity = state.setdefault("velocity", [0.0] * len(w))
    for i in range(len(w)):
        velocity[i] = momentum * velocity[i] + rate * (g[i] + decay * w[i])
        w[i] -= velocity[i]


def lamb(name, w, g, state, rate, options):
    beta1, beta2 = options.get("beta1", 0.9), options.get("beta2", 0.999)
    state["number"] = state.get("number", 0) + 1
    first = state.setdefault("first", [0.0] * len(w))
    second = state.setdefault("second", [0.0] * len(w))
    update = []
    for i in range(len(w)):
        first[i] = beta1 * first[i] + (1 - beta1) * g[i]
        second[i] = beta2 * second[i] + (1 - beta2) * g[i] ** 2
        mean = first[i] / (1 - beta1 ** state["number"])
        square = second[i] / (1 - beta2 ** state["number"])
        update.append(mean / (math.sqrt(square) + options.get("epsilon", 1e-8))
                      + decay_of(name, options) * w[i])
    if len(SHAPES[name]) > 1 and norm(w) > 0 and norm(update) > 0:
        rate *= norm(w) / norm(update)
    for i in range(len(w)):
        w[i] -= rate * update[i]


def run(optimizer, options, base, start, gradients):
    parameters = {name: list(values) for name, values in start.items()}
    states = {name: {} for name in SHAPES}
    steps = []
    for step in range(STEPS):
        rate = base * (1 + step) / STEPS  # another one at each step
        for name, w in parameters.items():
            optimizer(name, w, gradients[step][name], states[name], rate, options)
        steps.append({"learning_rate": rate, "parameters": {n: [float(f"{v:.9g}") for v in w]
                                     for n, w in parameters.items()}})
    return {"optimizer": optimizer.__name__, "options": options, "steps": steps}


dice = random.Random(1)
start = tensors_of(dice, 1)
start["zeros"] = [0.0] * 12
gradients = [tensors_of(dice, 4.0 ** (-step)) for step in range(STEPS)]
gradients[1]["convolution.weight"] = [0.0] * 24
runs = [run(lars, options, 2, start, gradients) for options in LARS]
runs += [run(lamb, options, 0.05, start, gradients) for options in LAMB]
print(json.dumps({"shapes": SHAPES, "start": start, "gradients": gradients, "runs": runs},
                 separators=(",", ":")))
