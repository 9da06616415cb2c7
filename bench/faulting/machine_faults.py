# SPDX-License-Identifier: Apache-2.0
"""Faults of a machine: its memory runs out, it is slow, its disk is full or hangs."""
import contextlib
import itertools
import os
import pathlib
import signal
import subprocess
import sys
import time

from faulting.kinds import Fault, Here, Missed, between, kind
from faulting.processes import is_alive
from faulting.system import Refusal, await_that, now

CGROUPS = pathlib.Path("/sys/fs/cgroup")
MEMORY = 64 << 20     # bytes, for what a group takes beyond what its processes have
FOR_DEATH = 30        # seconds until all memory is taken, at most
FOR_END = 10          # seconds until a group is left by all
GROUPS = itertools.count()
LOOK = 0.002          # seconds
SLOWER = 4
PERIOD = 100_000      # microseconds
HOG = """
blocks = []
while True:
    blocks.append(bytearray(1 << 20))
"""


def files_of(controller: str) -> pathlib.Path:
    """Where groups of a controller are made, in either version of cgroups."""
    if (CGROUPS / "cgroup.controllers").exists():
        return CGROUPS
    return CGROUPS / controller


def has_cgroups() -> bool:
    return all(os.access(files_of(name), os.W_OK) for name in ("memory", "cpu"))


@contextlib.contextmanager
def group(controller: str, limits: dict[str, str]):
    """The folder of a group that is there until the block ends; limits by file, of those that this
    version has."""
    top = files_of(controller)
    folder = top / f"daso-faults-{os.getpid()}-{next(GROUPS)}"
    try:
        if top == CGROUPS:
            (top / "cgroup.subtree_control").write_text(f"+{controller}")
        folder.mkdir()
        for name, value in limits.items():
            if (folder / name).exists():
                (folder / name).write_text(value)
    except OSError as error:
        raise Refusal(f"cannot make a group of processes: {error}") from None
    try:
        yield folder
    finally:
        await_that(lambda: dissolved(folder, top), FOR_END)


def dissolved(folder: pathlib.Path, top: pathlib.Path) -> bool:
    """Who is about to die stays in it for a moment."""
    for pid in (folder / "cgroup.procs").read_text().split():
        move(int(pid), top)
    with contextlib.suppress(OSError):
        folder.rmdir()
    return not folder.exists()


def move(pid: int, folder: pathlib.Path) -> None:
    with contextlib.suppress(OSError):  # it has ended
        (folder / "cgroup.procs").write_text(str(pid))


@kind("out-of-memory", "death", needs="cgroup")
def out_of_memory(here: Here, fault: Fault) -> None:
    """Somebody beside a rank takes all memory, and the kernel ends the one that it may do without."""
    process = here.rank_of(fault)
    if not process:
        raise Missed(f"rank {fault.local_rank} of node {fault.node}")
    limits = {"memory.limit_in_bytes": str(MEMORY), "memory.max": str(MEMORY)}
    with group("memory", limits) as folder:
        pathlib.Path(f"/proc/{process.pid}/oom_score_adj").write_text("1000")
        move(process.pid, folder)
        hog = subprocess.Popen([sys.executable, "-c", HOG], stderr=subprocess.DEVNULL,
                               preexec_fn=lambda: move(os.getpid(), folder))
        try:
            died = await_death(here, process.pid)
            if died:
                fault.strikes(fault.node, at=died)
        finally:
            hog.send_signal(signal.SIGKILL)
            hog.wait(30)
    if not died:
        raise Missed("the kernel has not ended the rank")


def await_death(here: Here, pid: int) -> float | None:
    """When the process was seen alive for the last time; none: it lives."""
    deadline = now() + FOR_DEATH
    while (seen := now()) < deadline:
        if not is_alive(pid):
            return seen - LOOK
        here.job.tend()
        time.sleep(LOOK)
    return None


@kind("slow", "nothing", needs="cgroup")
def slow(here: Here, fault: Fault) -> None:
    """A node gets a quarter of its share of this machine."""
    share = int(PERIOD * os.cpu_count() / here.place.nodes / SLOWER)
    limits = {"cpu.cfs_period_us": str(PERIOD), "cpu.cfs_quota_us": str(share),
              "cpu.max": f"{share} {PERIOD}"}
    with group("cpu", limits) as folder:
        fault.strikes()
        for process in here.job.of_node(fault.node, "launcher", "rank"):
            move(process.pid, folder)
        here.wait(between(fault.draws[0], 1.5, 3))


@kind("disk-full", "nothing", needs="disk")
def disk_full(here: Here, fault: Fault) -> None:
    fault.strikes()
    with here.disk.full():
        here.wait(between(fault.draws[0], 0.5, 2))


@kind("disk-hung", "nothing", needs="disk")
def disk_hung(here: Here, fault: Fault) -> None:
    """Of all nodes: it is one that they share. Writes wait, for a time that may be longer than a node
    may be silent."""
    fault.strikes()
    with here.disk.hung():
        here.wait(between(fault.draws[0], 0.5, 1.5 * here.silence))
