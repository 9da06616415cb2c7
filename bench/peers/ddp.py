# SPDX-License-Identifier: Apache-2.0
"""PyTorch DistributedDataParallel on Gloo, doing the emulated job of `daso bench step`.

    daso run --nodes 4 --ranks-per-node 2 [--cluster NAME] -- .venv/bin/python3 bench/peers/ddp.py

Forward and backward sleep as if an accelerator computed; the gradient of layer i becomes ready when
its share of backward is over, the last layer first. As an accelerator does not wait for its host,
layers become ready at fixed times after backward's start. All else is real: buckets, hooks,
all-reduce, optimizer. Rank 0 prints one JSON object.
"""
import argparse
import json
import os
import time
import warnings

# Neither a missing NumPy nor a missing name service has a say in what is measured.
warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

import torch
import torch.distributed
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.nn.parallel import DistributedDataParallel


def sleep_until(moment: float) -> None:
    """Returns at this time of time.monotonic(), or at once if it has passed."""
    left = moment - time.monotonic()
    if left > 0:
        time.sleep(left)


class Backward:
    """What all layers' backward shares."""

    def __init__(self, layer_seconds: float):
        self.layer_seconds = layer_seconds
        self.started = 0.0


class SleepingLayer(torch.autograd.Function):
    """Passes its input on. Its gradient is ready when its turn in backward is over."""

    @staticmethod
    def forward(ctx, value, weight, gradient, backward, turn):
        ctx.gradient = gradient
        ctx.shared = backward
        ctx.turn = turn  # 0 for the last layer, whose gradient is the first
        return value.clone()

    @staticmethod
    def backward(ctx, grad):
        if ctx.turn == 0:
            ctx.shared.started = time.monotonic()
        sleep_until(ctx.shared.started + (ctx.turn + 1) * ctx.shared.layer_seconds)
        return grad, ctx.gradient, None, None, None


class EmulatedModel(torch.nn.Module):
    def __init__(self, options: argparse.Namespace):
        super().__init__()
        self.forward_seconds = options.forward_ms / 1000
        self.backward = Backward(options.backward_ms / 1000 / options.layers)
        # The first ones take what does not divide evenly.
        share, rest = divmod(options.parameters, options.layers)
        sizes = [share + (i < rest) for i in range(options.layers)]
        self.weights = torch.nn.ParameterList(torch.zeros(size) for size in sizes)
        self.gradients = [torch.full((size,), 1e-3) for size in sizes]

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        started = time.monotonic()
        last = len(self.gradients) - 1
        for i, (weight, gradient) in enumerate(zip(self.weights, self.gradients)):
            value = SleepingLayer.apply(value, weight, gradient, self.backward, last - i)
        sleep_until(started + self.forward_seconds)
        return value.sum()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hook", choices=["none", "bf16", "off"], default="none",
                        help="none: fp32; bf16: DDP's hook of this name; off: no communication")
    parser.add_argument("--bucket-mb", type=float, default=25, help="DDP's own default is 25")
    parser.add_argument("--layers", type=int, default=20)
    parser.add_argument("--parameters", type=int, default=2_560_000)
    parser.add_argument("--forward-ms", type=float, default=80)
    parser.add_argument("--backward-ms", type=float, default=160)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup-steps", type=int, default=8)
    return parser.parse_args()


def wrap(model: EmulatedModel, options: argparse.Namespace) -> torch.nn.Module:
    if options.hook == "off":
        return model
    wrapped = DistributedDataParallel(model, bucket_cap_mb=options.bucket_mb,
                                      gradient_as_bucket_view=True)
    if options.hook == "bf16":
        wrapped.register_comm_hook(None, bf16_compress_hook)
    return wrapped


def seconds_per_step(model: torch.nn.Module, options: argparse.Namespace) -> float:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    for step in range(options.warmup_steps + options.steps):
        if step == options.warmup_steps:
            torch.distributed.barrier()
            begun = time.perf_counter()
        loss = model(torch.zeros(1, requires_grad=True))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
    torch.distributed.barrier()
    return (time.perf_counter() - begun) / options.steps


def main() -> None:
    options = parse()
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    seconds = seconds_per_step(wrap(EmulatedModel(options), options), options)
    if torch.distributed.get_rank() == 0:
        print(json.dumps({"peer": "ddp", "hook": options.hook, "bucket_mb": options.bucket_mb,
                          "ranks": torch.distributed.get_world_size(),
                          "seconds_per_step": round(seconds, 4)}))
    torch.distributed.destroy_process_group()


main()
