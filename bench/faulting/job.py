# SPDX-License-Identifier: Apache-2.0
"""A run of `daso train --on-failure continue`, what it says and when, and whoever looks after its
machines: a launcher that has ended before the run is started again with --join."""
import dataclasses
import pathlib
import shutil
import signal
import subprocess
import threading
import time

from faulting import stacks
from faulting.processes import Process, processes_of
from faulting.system import await_that, now, send

FINISHED = 0
STOPPED = 75  # told to, with a checkpoint


@dataclasses.dataclass
class Said:
    when: float
    launcher: int  # the node that it was started for
    line: str


@dataclasses.dataclass
class Launcher:
    node: int
    process: subprocess.Popen
    began: float
    joined: bool
    reader: threading.Thread | None = None
    ended: float | None = None


class Hang(Exception):
    """A run in which nothing happens any more. Stacks are kept."""


class Job:
    def __init__(self, daso: pathlib.Path, place, out: pathlib.Path, kept: pathlib.Path,
                 flags: list[str], rejoin_after: float = 1.0, mode: str = "continue"):
        self.daso, self.place, self.out, self.kept, self.own_flags = daso, place, out, kept, flags
        self.rejoin_after, self.mode = rejoin_after, mode
        self.said: list[Said] = []
        self.launchers: list[Launcher] = []
        self.held: set[int] = set()  # nodes that nobody starts again for now
        self.told_to_stop = False
        shutil.rmtree(out, ignore_errors=True)
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(parents=True)
        self.token = kept / "token"
        self.token.write_text("of this run\n")

    # --- launchers ---

    def words(self, node: int, *more: str, join: bool = False) -> list[str]:
        survives = ["--on-failure", "continue", "--restarts", "1000"]
        return [str(self.daso), "train", "--backend", "tcp",
                *(survives if self.mode == "continue" else ["--on-failure", "stop"]), "--nodes",
                str(self.place.nodes), "--ranks-per-node", str(self.place.ranks), "--out",
                str(self.out), *self.place.flags(node, join, self.token), *self.own_flags, *more]

    def begin(self, resume: bool = False) -> None:
        for node in range(self.place.nodes) if self.place.several else [0]:
            self.start(node, *(["--resume"] if resume else []))

    def start(self, node: int, *more: str, join: bool = False) -> None:
        words = self.place.enter(node) + self.words(node, *more, join=join)
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, errors="replace",
                                   start_new_session=True)
        launcher = Launcher(node, process, now(), join)
        launcher.reader = threading.Thread(target=self.read, args=(launcher,), daemon=True)
        launcher.reader.start()
        self.launchers.append(launcher)

    def read(self, launcher: Launcher) -> None:
        for line in launcher.process.stdout:
            self.said.append(Said(now(), launcher.node, line.rstrip("\n")))

    def wake_wrappers(self) -> None:
        """What runs a launcher on a node stops with it, and does not go on by itself."""
        for launcher in self.current().values():
            if launcher.process.poll() is None:
                send(launcher.process.pid, signal.SIGCONT)

    def current(self) -> dict[int, Launcher]:
        """The last launcher of each node."""
        return {launcher.node: launcher for launcher in self.launchers}

    def tend(self) -> None:
        """Starts launchers again that ended before the run did, after a while."""
        for launcher in self.current().values():
            if launcher.process.poll() is None:
                continue
            launcher.ended = launcher.ended or now()
            due = now() - launcher.ended >= self.rejoin_after
            if self.place.several and due and launcher.node not in self.held and not self.over():
                self.start(launcher.node, join=True)

    def stop(self) -> None:
        """As a person or a scheduler does it: all launchers are told."""
        self.told_to_stop = True
        for process in self.processes():
            if process.role == "launcher":
                send(process.pid, signal.SIGTERM)

    def over(self) -> bool:
        """The run has come to its end, or is told to; or nobody is left."""
        codes = [launcher.process.poll() for launcher in self.current().values()]
        return self.told_to_stop or FINISHED in codes or all(code is not None for code in codes)

    # --- what is known of it ---

    def processes(self) -> list[Process]:
        return processes_of(self.out, self.place.ranks)

    def of_node(self, node: int, *roles: str) -> list[Process]:
        return [one for one in self.processes() if one.node == node and one.role in roles]

    def rank(self, rank: int) -> Process | None:
        return next((one for one in self.processes() if one.rank == rank), None)

    # --- its end ---

    def await_end(self, limit: float, last_step) -> None:
        """Waits as long as there is a step now and then. Raises Hang where none comes for the limit,
        or a launcher does not end for as long after the run."""
        since = now()

        def ended() -> bool:
            self.tend()
            return all(one.process.poll() is not None for one in self.current().values())

        while not ended():
            if now() - max(since, last_step()) > limit:
                raise Hang(f"no step and no end for {limit:.0f} s")
            time.sleep(0.1)

    def keep_stacks(self) -> None:
        stacks.keep(self.processes(), self.kept / "stacks")
        self.wake_wrappers()

    def kill(self) -> None:
        """Whatever is left of it, guardians first: they would ask ranks to save."""
        def gone() -> bool:
            for process in sorted(self.processes(), key=lambda one: one.role != "guardian"):
                send(process.pid, signal.SIGKILL)
            return not self.processes()

        await_that(gone, 30)
        for launcher in self.launchers:
            if launcher.process.poll() is None:
                launcher.process.kill()
            launcher.process.wait(30)

    def keep(self) -> None:
        """What is small and tells what happened."""
        for launcher in self.launchers:
            launcher.reader.join(10)
        lines = [f"{said.when:.3f} [{said.launcher}] {said.line}\n"
                 for said in sorted(self.said, key=lambda said: said.when)]
        (self.kept / "said.log").write_text("".join(lines))
        for name in ("membership.jsonl", "summary.json", "config.toml"):
            if (self.out / name).exists():
                shutil.copyfile(self.out / name, self.kept / name)
