# SPDX-License-Identifier: Apache-2.0
"""Ends a run like a loss of power: all its processes at once, none of which is asked to."""
import os
import pathlib
import signal
import time

LIMIT = 30  # seconds


def kill_run(folder: pathlib.Path) -> None:
    """Returns when no process is left that has the run's folder among its arguments: launcher,
    guardian and ranks all have it."""
    deadline = time.monotonic() + LIMIT
    while found := processes_of(folder):
        assert time.monotonic() < deadline, f"still there, although killed: {found}"
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it was quicker
        time.sleep(0.01)


def processes_of(folder: pathlib.Path) -> list[int]:
    """The guardian comes first: when the launcher is gone it asks the ranks to end, and a rank that
    is asked saves before it does."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
            name = (entry / "comm").read_text().strip()
        except OSError:
            continue  # it has ended
        if os.fsencode(folder) in arguments:
            found.append((name != "daso-guardian", int(entry.name)))
    return [pid for _, pid in sorted(found)]
