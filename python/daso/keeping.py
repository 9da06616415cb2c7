# SPDX-License-Identifier: Apache-2.0
"""What a loop must keep besides model and optimizer to go on later with the same bits."""

from __future__ import annotations

import io
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch


class Keeping:
    """Random numbers, the place in the data, and objects that the user names.

    A loader that shuffles draws its order when an epoch begins: a run that goes on in the middle of
    one draws it again from the numbers of that time, leaves out the batches that are done, and then
    draws on from where it was.
    """

    def __init__(self, run: Any, also: dict[str, Any]):
        self._run = weakref.proxy(run)
        self._also = also
        self._at_epoch: dict[str, torch.Tensor] = {}  # random numbers when it began
        self._loaded: dict[str, torch.Tensor] | None = None  # those to go on with

    def batches_of(self, loader: Iterable, epoch: int, first: int) -> Iterator[Any]:
        sampler = getattr(loader, "sampler", None)
        if hasattr(sampler, "_first"):  # ours, which leaves out by itself
            sampler.set_epoch(epoch, first)
            left_out = 0
        else:
            if hasattr(sampler, "set_epoch"):
                sampler.set_epoch(epoch)
            left_out = first
        if first > 0 and self._loaded is not None:
            set_random_state(self._at_epoch)
        else:
            self._at_epoch = random_state()
        batches = iter(loader)
        for _ in range(left_out):
            next(batches, None)
        if self._loaded is not None:
            set_random_state(self._loaded)
            self._loaded = None
        return batches

    def tensors(self) -> dict[str, torch.Tensor]:
        kept = {f"now/{name}": value for name, value in random_state().items()}
        kept |= {f"epoch/{name}": value for name, value in self._at_epoch.items()}
        if self._run._rate is not None:
            kept["rate"] = torch.tensor([self._run._rate], dtype=torch.float64)
        objects = dict(self._also)
        if self._run._scaler is not None:
            objects["/scaler"] = self._run._scaler
        for name, value in objects.items():
            kept[f"also/{name}"] = bytes_of(value.state_dict())
        return kept

    def load(self, kept: dict[str, torch.Tensor]) -> None:
        def part(prefix: str) -> dict[str, torch.Tensor]:
            return {
                name.removeprefix(prefix): value
                for name, value in kept.items()
                if name.startswith(prefix)
            }

        self._at_epoch = part("epoch/")
        self._loaded = part("now/")
        set_random_state(self._loaded)
        if "rate" in kept:
            self._run._rate = kept["rate"].item()
        for name, value in part("also/").items():
            target = self._run._scaler if name == "/scaler" else self._also.get(name)
            if target is not None:
                target.load_state_dict(value_of(value))


def random_state() -> dict[str, torch.Tensor]:
    state = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_initialized():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def set_random_state(state: dict[str, torch.Tensor]) -> None:
    if "cpu" in state:
        torch.set_rng_state(state["cpu"].clone())
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"].clone())


def bytes_of(value: Any) -> torch.Tensor:
    file = io.BytesIO()
    torch.save(value, file)
    return torch.frombuffer(bytearray(file.getvalue()), dtype=torch.uint8)


def value_of(tensor: torch.Tensor) -> Any:
    """Nothing in the bytes is executed."""
    return torch.load(io.BytesIO(tensor.numpy().tobytes()), weights_only=True)
