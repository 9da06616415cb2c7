# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's own optimizers and its clipping make of a few small tensors. The numbers lie in
torch_cases.json, where the tests of ours read them.

Run as, with a Python that has torch:
    python3 tests/optim/torch_cases.py > tests/optim/torch_cases.json
"""
import json
import warnings

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
import torch

# Biases and norms have one dimension, one has none.
SHAPES = {"convolution.weight": [3, 2, 2, 2], "norm.weight": [3], "norm.bias": [3],
          "temperature": [], "head.weight": [5, 3], "head.bias": [5]}
STEPS = 6

SGD = [
    {},
    {"momentum": 0.9},
    {"momentum": 0.9, "weight_decay": 0.01},
    {"momentum": 0.9, "weight_decay": 0.01, "decay_all": False},
    {"momentum": 0.8, "weight_decay": 0.05, "nesterov": True},
    {"momentum": 0.8, "weight_decay": 0.05, "nesterov": True, "decay_all": False},
    {"weight_decay": 0.1},
    {"weight_decay": 0.1, "decay_all": False},
]
ADAMW = [
    {"weight_decay": 0},
    {"weight_decay": 0.01},
    {"weight_decay": 0.1, "decay_all": False},
    {"weight_decay": 0.1, "beta1": 0.5, "beta2": 0.9, "epsilon": 1e-3},
    {"weight_decay": 0.1, "beta1": 0.0, "beta2": 0.95, "epsilon": 1e-6, "decay_all": False},
]
LARGEST = [0.5, 3, 1000]


def numbers(tensors):
    """With as many digits as it takes to tell all float32 apart."""
    return {name: [float(f"{value:.9g}") for value in tensor.flatten().tolist()]
            for name, tensor in tensors.items()}


def tensors_of(generator, scale):
    return {name: scale * torch.randn(shape, generator=generator)
            for name, shape in SHAPES.items()}


def rate(step, base):
    """Another one at each step."""
    return base * (1 + step) / STEPS


def groups(parameters, decay, decay_all):
    decayed = [p for p in parameters.values() if decay_all or p.dim() > 1]
    others = [p for p in parameters.values() if not (decay_all or p.dim() > 1)]
    return [{"params": decayed, "weight_decay": decay}, {"params": others, "weight_decay": 0}]


def optimizer_of(name, parameters, options):
    split = groups(parameters, options.get("weight_decay", 0), options.get("decay_all", True))
    if name == "sgd":
        return torch.optim.SGD(split, momentum=options.get("momentum", 0),
                               nesterov=options.get("nesterov", False))
    return torch.optim.AdamW(split, betas=(options.get("beta1", 0.9), options.get("beta2", 0.999)),
                             eps=options.get("epsilon", 1e-8))


def run(name, options, base, start, gradients):
    parameters = {key: torch.nn.Parameter(value.clone()) for key, value in start.items()}
    optimizer = optimizer_of(name, parameters, options)
    steps = []
    for step in range(STEPS):
        for key, parameter in parameters.items():
            parameter.grad = gradients[step][key].clone()
        for group in optimizer.param_groups:
            group["lr"] = rate(step, base)
        optimizer.step()
        steps.append({"learning_rate": rate(step, base),
                      "parameters": numbers({k: p.detach() for k, p in parameters.items()})})
    return {"optimizer": name, "options": options, "steps": steps}


def clip(largest, gradients):
    parameters = {key: torch.nn.Parameter(torch.zeros_like(g)) for key, g in gradients.items()}
    for key, parameter in parameters.items():
        parameter.grad = gradients[key].clone()
    norm = torch.nn.utils.clip_grad_norm_(parameters.values(), largest).item()
    return {"largest": largest, "norm": norm,
            "clipped": numbers({key: p.grad for key, p in parameters.items()})}


def cases():
    generator = torch.Generator().manual_seed(1)
    start = tensors_of(generator, 1)
    gradients = [tensors_of(generator, 10.0 ** (-step)) for step in range(STEPS)]
    runs = [run("sgd", options, 0.3, start, gradients) for options in SGD]
    runs += [run("adamw", options, 0.05, start, gradients) for options in ADAMW]
    return {"shapes": SHAPES, "start": numbers(start), "gradients": list(map(numbers, gradients)),
            "runs": runs, "clips": [clip(largest, start) for largest in LARGEST]}


if __name__ == "__main__":
    print(json.dumps(cases(), separators=(",", ":")))
