# SPDX-License-Identifier: Apache-2.0
"""The emulated job of `daso bench step`, for the peers.

Forward and backward sleep as if an accelerator computed; the gradient of layer i becomes ready when
its share of backward is over, the last layer first. As an accelerator does not wait for its host,
layers become ready at fixed times after backward's start. All else is real.
"""
import argparse
import os
import time
import warnings
from collections.abc import Callable

# Neither a missing NumPy nor a missing name service has a say in what is measured.
warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

import torch

from pace import pace

GRADIENT = 1e-3
LEARNING_RATE = 1e-3
MOMENTUM = 0.9


# --- the command line ---

def whole(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isdigit() or int(text) < least:
            raise argparse.ArgumentTypeError(
                f"takes a whole number of at least {least}, got '{text}'")
        return int(text)
    return parse


def amount(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"takes a number of at least 0, got '{text}'")
    return value


def parser(description: str) -> argparse.ArgumentParser:
    """With the flags that all peers have."""
    made = argparse.ArgumentParser(description=description,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--bucket-mb", type=amount, default=25, help="DDP's own default is 25")
    made.add_argument("--layers", type=whole(1), default=20)
    made.add_argument("--parameters", type=whole(1), default=2_560_000)
    made.add_argument("--forward-ms", type=amount, default=80)
    made.add_argument("--backward-ms", type=amount, default=160)
    made.add_argument("--steps", type=whole(1), default=20)
    made.add_argument("--warmup-steps", type=whole(0), default=8)
    made.add_argument("--noise", type=amount, default=0,
                      help="the last node computes longer, by a share drawn from 0 to twice this")
    made.add_argument("--stall-chance", type=amount, default=0,
                      help="of each node, that it pauses before a step")
    made.add_argument("--stall-ms", type=amount, default=500, help="how long it does")
    made.add_argument("--seed", type=whole(0), default=1, help="of noise and stalls")
    return made


# --- the model ---

def sleep_until(moment: float) -> None:
    """Returns at this time of time.monotonic(), or at once if it has passed."""
    left = moment - time.monotonic()
    if left > 0:
        time.sleep(left)


class Backward:
    """What all layers' backward shares."""

    def __init__(self):
        self.layer_seconds = 0.0
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
        self.options = options
        self.step = 0
        self.node = int(os.environ.get("GROUP_RANK", "0"))
        self.nodes = int(os.environ.get("WORLD_SIZE", "1")) // int(
            os.environ.get("LOCAL_WORLD_SIZE", "1"))
        self.backward = Backward()
        # The first ones take what does not divide evenly.
        share, rest = divmod(options.parameters, options.layers)
        sizes = [share + (i < rest) for i in range(options.layers)]
        self.weights = torch.nn.ParameterList(torch.zeros(size) for size in sizes)
        self.gradients = [torch.full((size,), GRADIENT) for size in sizes]

    def step_seconds(self) -> tuple[float, float]:
        """How long the next step's forward and backward take: the one place that says so."""
        stretch, stall = pace(self.options, self.nodes, self.node, self.step)
        self.step += 1
        return (stall + stretch * self.options.forward_ms / 1000,
                stretch * self.options.backward_ms / 1000)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        started = time.monotonic()
        forward_seconds, backward_seconds = self.step_seconds()
        self.backward.layer_seconds = backward_seconds / len(self.gradients)
        last = len(self.gradients) - 1
        for i, (weight, gradient) in enumerate(zip(self.weights, self.gradients)):
            value = SleepingLayer.apply(value, weight, gradient, self.backward, last - i)
        sleep_until(started + forward_seconds)
        return value.sum()


# --- the loop ---

def sgd(model: torch.nn.Module) -> torch.optim.SGD:
    return torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM)


def one_step(model: torch.nn.Module, optimizer) -> None:
    loss = model(torch.zeros(1, requires_grad=True))
    loss.backward()
    optimizer.step()
    model.zero_grad(set_to_none=False)  # DDP's buckets are the gradients


def seconds_per_step(model: torch.nn.Module, optimizer, options: argparse.Namespace,
                     barrier: Callable[[], None]) -> float:
    for step in range(options.warmup_steps + options.steps):
        if step == options.warmup_steps:
            barrier()
            begun = time.perf_counter()
        one_step(model, optimizer)
    barrier()
    return (time.perf_counter() - begun) / options.steps


# --- whether a peer does its work ---

class Mistake(Exception):
    """A peer that does not average what it should."""


def make_ranks_differ(model: EmulatedModel, rank: int) -> None:
    """Gradients of its own for every rank: what is averaged can be told from what is not."""
    for gradient in model.gradients:
        gradient.fill_(GRADIENT * (1 + rank))


def edges(model: EmulatedModel) -> list[float]:
    """The least and the greatest element of each layer: enough for ranks to compare."""
    return [edge.item() for weight in model.weights for edge in (weight.min(), weight.max())]


def spread(ranks: list[list[float]]) -> float:
    """How far apart ranks are, relative to the size of what they have."""
    stacked = torch.tensor(ranks)
    widest = (stacked.max(0).values - stacked.min(0).values).max()
    return (widest / stacked.abs().max()).item()


def spread_in_nodes(ranks: list[list[float]], ranks_per_node: int) -> float:
    return max(spread(ranks[i:i + ranks_per_node]) for i in range(0, len(ranks), ranks_per_node))
