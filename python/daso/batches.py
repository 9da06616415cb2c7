# SPDX-License-Identifier: Apache-2.0
"""The batches of an epoch, each by its number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from daso.keeping import Keeping, random_state, set_random_state


class Batches:
    """Draws the batches of an epoch from a loader, in their order.

    Where nodes may be lost those of the present step can be had again, with the random numbers of
    the first time; and where the run goes on elsewhere, or from another seat in their deal, the
    loader begins anew.
    """

    def __init__(self, keeping: Keeping, loader: Iterable, epoch: int, *, again: bool):
        self._keeping = keeping
        self._loader = loader
        self._epoch = epoch
        self._again = again
        self._drawn: Any = None  # the loader's iterator
        self._next = 0  # the batch that it gives next
        self._seat: Any = None  # in the deal of the examples
        self._held: dict[int, tuple] = {}  # of the present step, with random numbers

    def take(self, number: int, first: int, seat: Any) -> Any:
        """The batch of this number, where that of `first` is its step's first. Raises StopIteration
        where the loader has no more."""
        if self._seat != seat:
            if number in self._held:  # another one now, for a step that is done again
                self._keeping.go_on_with(self._held[number][1])
            self._held.clear()
            self._drawn = None
            self._seat = seat
        if number in self._held:
            batch, _, numbers = self._held[number]
            self._keeping.go_on()
            set_random_state(numbers)
            return batch
        if self._drawn is None or self._next > number:
            self._drawn = self._keeping.batches_of(self._loader, self._epoch, number)
            self._next = number
        self._held = {key: value for key, value in self._held.items() if key >= first}
        for _ in range(number - self._next):  # which others have done
            next(self._drawn)
        before = random_state() if self._again else None
        batch = next(self._drawn)
        self._keeping.go_on()
        self._next = number + 1
        if self._again:
            self._held[number] = (batch, before, random_state())
        return batch


def moved(batch: Any, device: torch.device) -> Any:
    if device.type == "cpu":
        return batch
    if isinstance(batch, torch.Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, dict):
        return type(batch)({key: moved(value, device) for key, value in batch.items()})
    if isinstance(batch, (list, tuple)) and not hasattr(batch, "_fields"):
        return type(batch)(moved(value, device) for value in batch)
    return batch


def first_tensor(batch: Any) -> torch.Tensor | None:
    if isinstance(batch, torch.Tensor):
        return batch
    values = batch.values() if isinstance(batch, dict) else batch
    if isinstance(values, (list, tuple)) or isinstance(batch, dict):
        for value in values:
            found = first_tensor(value)
            if found is not None:
                return found
    return None
