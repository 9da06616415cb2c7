# SPDX-License-Identifier: Apache-2.0
"""Which rank sees which example when."""

from __future__ import annotations

from collections.abc import Iterator, Sized

import torch.utils.data

from daso import _core
from daso.world import init


class Sampler(torch.utils.data.Sampler[int]):
    """Deals the examples of a data set to the ranks, as `daso train` does.

    loader = DataLoader(data, batch_size=32, sampler=daso.Sampler(data, batch_size=32))

    Each epoch has a permutation of its own, drawn from the seed, the same on every machine. Ranks
    take turns batch by batch, so the examples of a step are those of one process with the whole
    batch. What does not fill a batch of every rank is left out, other examples in each epoch; with
    wrap=True the epoch is filled up from its beginning instead.

    A Run sets the epoch, and goes on in the middle of one. Where nodes come and go it also sets how
    many seats the examples are dealt to: those of an epoch stay as they are, whoever is lost, and
    who joins takes an empty one.
    """

    def __init__(self, data: Sized | int, *, batch_size: int, seed: int = 1, wrap: bool = False):
        self._examples = data if isinstance(data, int) else len(data)
        self._batch_size = batch_size
        self._seed = seed
        self._wrap = wrap
        self._epoch = 0
        self._first = 0
        self._lengths: dict[int, int] = {}  # by the number of seats
        len(self)  # or it is refused

    def set_epoch(self, epoch: int, first_batch: int = 0) -> None:
        self._epoch = epoch
        self._first = first_batch * self._batch_size

    def _order(self) -> list[int]:
        seat, seats = init()._seat
        return _core.shard(
            examples=self._examples,
            ranks=seats,
            batch_size=self._batch_size,
            wrap=self._wrap,
            seed=self._seed,
            epoch=self._epoch,
            rank=seat,
        )

    def __iter__(self) -> Iterator[int]:
        return iter(self._order()[self._first :])

    def __len__(self) -> int:
        seats = init()._seat[1]
        if seats not in self._lengths:
            self._lengths[seats] = len(self._order())
        return self._lengths[seats]
