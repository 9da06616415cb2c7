# SPDX-License-Identifier: Apache-2.0
"""What a loop must keep besides model and optimizer to go on later with the same bits."""

from __future__ import annotations

import copy
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
        loaded, self._loaded = self._loaded, None
        if loaded is not None:
            set_random_state(self._at_epoch if first > 0 else loaded)
        if first == 0 or loaded is None:
            self._at_epoch = random_state()
        batches = iter(loader)
        for _ in range(left_out):
            next(batches, None)
        if first > 0 and loaded is not None:
            set_random_state(loaded)
        return batches

    def go_on_with(self, numbers: dict[str, torch.Tensor]) -> None:
        """The batches that are drawn next are of one that begins with these random numbers."""
        self._loaded = numbers

    def go_on(self) -> None:
        """The batches that were begun are gone on with: no others are drawn again."""
        self._loaded = None

    def tensors(self) -> dict[str, torch.Tensor]:
        kept = {f"now/{name}": value for name, value in random_state().items()}
        kept |= {f"epoch/{name}": value for name, value in self._at_epoch.items()}
        joined = self._run.world._joined
        if joined.survives:
            kept["rank"] = torch.tensor([joined.rank_id])
        if self._run._rate is not None:
            kept["rate"] = torch.tensor([self._run._rate], dtype=torch.float64)
        for name, value in self._objects().items():
            kept[f"also/{name}"] = bytes_of(value.state_dict())
        return kept

    def _objects(self) -> dict[str, Any]:
        scaler = self._run._scaler
        return self._also if scaler is None else {**self._also, "/scaler": scaler}

    def copies(self) -> dict[str, Any]:
        """Of the objects that the user names, as they are now."""
        return {name: copy.deepcopy(one.state_dict()) for name, one in self._objects().items()}

    def put_back(self, copies: dict[str, Any]) -> None:
        for name, one in self._objects().items():
            one.load_state_dict(copies[name])

    def load(self, kept: dict[str, torch.Tensor]) -> None:
        def part(prefix: str) -> dict[str, torch.Tensor]:
            return {
                name.removeprefix(prefix): value
                for name, value in kept.items()
                if name.startswith(prefix)
            }

        # Who joins a run draws numbers of its own.
        if "rank" not in kept or kept["rank"].item() == self._run.world._joined.rank_id:
            self._at_epoch = part("epoch/")
            self._loaded = part("now/")
            set_random_state(self._loaded)
        if "rate" in kept:
            self._run._rate = kept["rate"].item()
        objects = self._objects()
        for name, value in part("also/").items():
            if name in objects:
                objects[name].load_state_dict(value_of(value))


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
