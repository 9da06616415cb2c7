# SPDX-License-Identifier: Apache-2.0
"""A small training, and what of it can be seen from outside: its processes, files and end."""
import json
import os
import pathlib
import signal
import subprocess

from machines import LIMIT, Machines, await_that

RANKS_PER_NODE = 2
TIMEOUT = 10  # seconds, of every wait of a rank for another
# 64 steps an epoch, a checkpoint every second or so.
WORDS = ["train", "--data", "synthetic:train=4096,test=64,size=16,channels=1", "--model", "mlp",
         "--batch-size", "16", "--checkpoint-every", "100steps", "--timeout", str(TIMEOUT)]
SHORT, LONG = 2, 40  # epochs
PLACES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")  # told to ranks alone


class Training:
    def __init__(self, folder: pathlib.Path, epochs: int):
        self.run = folder
        self.words = [*WORDS, "--epochs", str(epochs), "--out", str(folder)]

    @property
    def resumed(self) -> list[str]:
        return [*self.words, "--resume"]

    def processes(self) -> list[int]:
        """All whose command line has the folder: ranks, launchers, guardians, shells."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and int(entry.name) != os.getpid() and \
                        os.fsencode(self.run) in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                pass  # it has ended
        return found

    def ranks(self) -> dict[int, int]:
        """Process numbers by rank."""
        found = {}
        for pid in self.processes():
            try:
                program = os.readlink(f"/proc/{pid}/exe")
                variables = dict(entry.split("=", 1) for entry in pathlib.Path(
                    f"/proc/{pid}/environ").read_text(errors="replace").split("\0") if "=" in entry)
            except OSError:
                continue
            place = next((name for name in PLACES if name in variables), None)
            if place and program.endswith("/daso"):
                found[int(variables[place])] = pid
        return found

    def rank_on(self, machines: Machines, node: int) -> int:
        return next(pid for pid in self.ranks().values() if machines.node_of(pid) == node)

    def steps(self) -> int:
        """How far it has come, by its records."""
        try:
            lines = (self.run / "metrics.jsonl").read_text().splitlines()
            return max((json.loads(line).get("step", 0) for line in lines), default=0)
        except (OSError, ValueError):
            return 0

    def checkpoints(self) -> list[int]:
        return sorted(json.loads(path.read_text())["step"]
                      for path in self.run.glob("checkpoints/*/manifest.json"))

    def summary(self) -> dict:
        return json.loads((self.run / "summary.json").read_text())

    def await_checkpoint(self, started: list[subprocess.Popen]) -> None:
        def ended() -> bool:
            return any(process.poll() is not None for process in started)

        await_that(lambda: self.checkpoints() or ended(), "the first checkpoint")
        assert not ended(), "the training ended by itself"

    def kill(self) -> None:
        """Whatever is left of it."""
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        await_that(lambda: not self.processes(), "processes end when they are killed", LIMIT)
