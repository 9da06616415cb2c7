# SPDX-License-Identifier: Apache-2.0
"""The processes of a run, on whichever node: they have its folder among their arguments."""
import dataclasses
import os
import pathlib
import re

OF_LAUNCHER = b"DASO_LAUNCHER_LINE="
GUARDIAN = "daso-guardian"  # kills the ranks of a launcher that is gone


@dataclasses.dataclass(frozen=True)
class Process:
    pid: int
    role: str         # launcher, guardian or rank
    node: int | None  # none: of a launcher that has all nodes
    rank: int | None = None


def identify(pid: int, out: pathlib.Path, ranks_per_node: int) -> Process | None:
    """None: it is none of this run's, or has ended."""
    entry = pathlib.Path(f"/proc/{pid}")
    try:
        words = (entry / "cmdline").read_bytes().split(b"\0")
        if os.fsencode(out) not in words or os.path.basename(os.readlink(entry / "exe")) != "daso":
            return None
        environment = (entry / "environ").read_bytes().split(b"\0")
        name = (entry / "comm").read_text().strip()
    except OSError:
        return None
    if any(text.startswith(OF_LAUNCHER) for text in environment):
        rank = next(int(text[5:]) for text in environment if text.startswith(b"RANK="))
        return Process(pid, "rank", rank // ranks_per_node, rank)
    node = int(words[words.index(b"--node-index") + 1]) if b"--node-index" in words else None
    return Process(pid, "guardian" if name == GUARDIAN else "launcher", node)


def processes_of(out: pathlib.Path, ranks_per_node: int) -> list[Process]:
    pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
    found = [identify(pid, out, ranks_per_node) for pid in pids]
    return [process for process in found if process]


def is_alive(pid: int) -> bool:
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def means_of(pid: int) -> dict[str, int] | None:
    """What a process has open and takes; none: it has ended."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        return {"descriptors": len(os.listdir(f"/proc/{pid}/fd")),
                "threads": int(re.search(r"Threads:\s+(\d+)", status)[1]),
                "kilobytes": int(re.search(r"VmRSS:\s+(\d+)", status)[1])}
    except (OSError, TypeError):  # a process that ends has no memory left to tell of
        return None
