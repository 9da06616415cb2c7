# SPDX-License-Identifier: Apache-2.0
"""The ranks of a job, which train together."""

from __future__ import annotations

import atexit
import sys

import torch

from daso import _core


class World:
    """The ranks of a job as one of them sees them; daso.init() makes it.

    rank, size            this rank, and how many there are
    node, nodes           the machine of this rank, and how many there are
    local_rank            this rank among those of its machine
    host                  the name of that machine
    device                where this rank computes, a torch.device

    Where nodes may be lost (`daso run --on-failure continue`) all but the device is that of the
    present view, and what ranks do together raises PeerError when a node is lost; it works again
    after the next batch. A process that was started again stands where it was started, and is alone
    with what ranks do together, until its Run has been made.
    """

    def __init__(self, joined: _core.World):
        self._joined = joined
        self.device = torch.device(joined.device_name)
        self._dealt: tuple[int, int] | None = None  # by a Run
        self._has_run = False

    rank: int = property(lambda self: self._joined.rank)
    size: int = property(lambda self: self._joined.size)
    node: int = property(lambda self: self._joined.node)
    nodes: int = property(lambda self: self._joined.nodes)
    local_rank: int = property(lambda self: self._joined.local_rank)
    host: str = property(lambda self: self._joined.host)

    @property
    def _seat(self) -> tuple[int, int]:
        """Whose place this rank has in the deal of the examples, and of how many."""
        return self._dealt or (self.rank, self.size)

    def barrier(self) -> None:
        """Returns when all ranks have come here."""
        self._joined.barrier()

    def all_reduce(self, tensor: torch.Tensor, how: str = "sum") -> torch.Tensor:
        """The sum, mean, max or min of the ranks' tensors, a new tensor on each."""
        return self._joined.all_reduce(tensor, how)

    def gather(self, text: str) -> list[str]:
        """A text of every rank, in the order of ranks, on all of them."""
        return self._joined.gather(text)

    def leave(self) -> None:
        """Waits for the others to come to their end, too. The end of the program does it."""
        self._joined.leave()

    def __repr__(self) -> str:
        return (
            f"daso.World(rank={self.rank}, size={self.size}, node={self.node}, "
            f"nodes={self.nodes}, device={str(self.device)!r})"
        )


_worlds: list[World] = []


def _end_of_program() -> None:
    """While the interpreter ends, before objects go: the others are told, and wait for nobody."""
    error = getattr(sys, "last_value", None)
    if isinstance(error, _core.PeerError) and _core.started_by_daso():
        # The exit code is 1 for every uncaught exception; this tells the launcher, which shows it
        # only where no rank is to blame.
        print(f"{_core.peer_error_mark}{error}".splitlines()[0], file=sys.stderr, flush=True)
    for world in _worlds:
        if error is None:
            world.leave()
        else:
            world._joined.abandon(f"{type(error).__name__}: {error}".splitlines()[0])


def init(
    *,
    backend: str | None = None,
    device: str = "auto",
    interface: str = "",
    limit: float = 60.0,
    join_limit: float | None = None,
    ports: str = "",
) -> World:
    """Joins the ranks that were started together, and returns their world.

    The launcher's variables tell who they are: `daso run`, torchrun, mpirun, srun, or RANK,
    WORLD_SIZE, MASTER_ADDR and MASTER_PORT set by hand. Without any this is a world of one.

    backend     tcp, gloo or mpi, for what travels between machines; None: what `daso run --backend`
                says, or else tcp
    device      auto, cpu, cuda or cuda:N; with auto and cuda the GPUs of a machine are dealt to
                its ranks
    interface   the network device to talk through
    limit       seconds that a rank waits for another before it is taken for lost
    join_limit  the same while ranks start, where that takes longer
    ports       FIRST-LAST: the ports that ranks call each other at, with backend tcp; else those of
                `daso run --ports`

    Called again it returns the same world. Raises ConfigError and PeerError.
    """
    if not _worlds:
        atexit.unregister(_end_of_program)  # of an attempt that failed
        atexit.register(_end_of_program)
        try:
            _worlds.append(World(_core.join(backend, interface, limit, join_limit, device, ports)))
        except _core.NodeLeft:
            raise SystemExit(_core.stopped_exit) from None
    return _worlds[0]
