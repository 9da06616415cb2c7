# SPDX-License-Identifier: Apache-2.0
"""A fault, and the table of all kinds. A kind is a function that does the harm, undoes it where that
is part of it, and notes when it struck and which nodes may be lost by it."""
import dataclasses
import time
import typing

from faulting.system import await_that, now


@dataclasses.dataclass
class Fault:
    """The first four are drawn before the run begins."""
    kind: str
    node: int
    local_rank: int
    draws: list[float]  # 0 ... 1, for what else a kind leaves to chance
    at: float = 0       # when it struck
    over: float = 0     # when the harm was undone; as above where there is nothing to undo
    lost: list[int] = dataclasses.field(default_factory=list)  # nodes that may be lost by it
    note: str = ""

    def strikes(self, *lost: int, at: float = 0) -> None:
        self.at = self.at or at or now()
        self.lost = sorted({*self.lost, *lost})


@dataclasses.dataclass
class Here:
    """What a fault can get hold of."""
    job: typing.Any
    probes: typing.Any
    place: typing.Any
    silence: float
    disk: typing.Any = None

    def rank_of(self, fault: Fault, node: int | None = None):
        """The process of the fault's rank, on its node or another; none: it is not there."""
        node = fault.node if node is None else node
        return self.job.rank(node * self.place.ranks + fault.local_rank)

    def wait(self, seconds: float) -> None:
        deadline = now() + seconds
        while (left := deadline - now()) > 0:
            self.job.tend()
            time.sleep(min(left, 0.05))

    def await_that(self, holds, limit: float) -> bool:
        return await_that(holds, limit, self.job.tend)

    def other_node(self, fault: Fault, draw: float) -> int:
        """Not the fault's."""
        return (fault.node + 1 + int(draw * (self.place.nodes - 1))) % self.place.nodes


class Missed(Exception):
    """What the fault was aimed at is not there now."""


@dataclasses.dataclass(frozen=True)
class Kind:
    do: typing.Callable[[Here, Fault], None]
    means: str            # death: a node is certainly lost; silence: it is after a while;
                          # nothing: nobody may be lost
    needs: str = ""       # network: a node's own; cgroup; disk: one of its own; transfer: a probe


KINDS: dict[str, Kind] = {}


def kind(name: str, means: str, needs: str = ""):
    def add(do):
        KINDS[name] = Kind(do, means, needs)
        return do
    return add


def between(draw: float, low: float, high: float) -> float:
    return low + draw * (high - low)
