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

    A Run sets the epoch, and goes on in the middle of one.
    """

    def __init__(self, data: Sized | int, *, batch_size: int, seed: int = 1, wrap: bool = False):
        world = init()
        self._examples = data if isinstance(data, int) else len(data)
        self._batch_size = batch_size
        self._seed = seed
        self._wrap = wrap
        self._rank = world.rank
        self._ranks = world.size
        self._epoch = 0
        self._first = 0
        self._length = len(self._order())

    def set_epoch(self, epoch: int, first_batch: int = 0) -> None:
        self._epoch = epoch
        self._first = first_batch * self._batch_size

    def _order(self) -> list[int]:
        return _core.shard(
            examples=self._examples,
            ranks=self._ranks,
            batch_size=self._batch_size,
            wrap=self._wrap,
            seed=self._seed,
            epoch=self._epoch,
            rank=self._rank,
        )

    def __iter__(self) -> Iterator[int]:
        return iter(self._order()[self._first :])

    def __len__(self) -> int:
        return self._length
