# SPDX-License-Identifier: Apache-2.0
"""Where all processes of a run that hangs are: stacks of all their threads."""
import pathlib
import signal
import subprocess

from faulting.processes import Process
from faulting.system import send

LIMIT = 180  # seconds a process: gdb reads all of LibTorch's symbols


def keep(processes: list[Process], folder: pathlib.Path) -> None:
    """All stand still before the first is looked at: gdb takes so long that the others would take
    the one that it holds for lost."""
    folder.mkdir(parents=True, exist_ok=True)
    for process in processes:
        send(process.pid, signal.SIGSTOP)
    for process in processes:
        if process.role == "guardian":
            continue
        name = process.role + "".join(f"_{number}" for number in (process.node, process.rank)
                                      if number is not None)
        try:
            done = subprocess.run(["gdb", "-p", str(process.pid), "-batch", "-ex",
                                   "thread apply all bt"], capture_output=True, text=True,
                                  timeout=LIMIT)
            text = done.stdout + done.stderr
        except (OSError, subprocess.TimeoutExpired) as error:
            text = f"no stacks: {error}\n"
        (folder / f"{name}.txt").write_text(text)
    for process in processes:
        send(process.pid, signal.SIGCONT)
