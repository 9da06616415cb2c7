#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every launcher for real, on two machines: does a training start and end, and what happens when a
rank is killed, a machine is lost, or the training is told to stop?

Run as: launchers_test.py DASO PYTHON_WITH_TORCH [--only NAME,...] [--write]

Prints the table of docs/cluster.md; --write puts its rows there. Exit code 77: what is missing here
to try any of them.
"""
import argparse
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True
import container
import launchers
import slurm
from machines import ROOT, Machines, await_that, signal_inside, why_none
from training import LONG, SHORT, Training

LAUNCHERS = {"own": launchers.Own, "hosts": launchers.Hosts, "mpirun": launchers.OpenMpi,
             "torchrun": launchers.Torchrun, "srun": slurm.Slurm, "sbatch": slurm.Batch,
             "mpich": launchers.Mpich, "podman": container.Podman}
CELLS = {"starts": "starts and ends", "rank_killed": "a rank killed",
         "machine_lost": "a machine lost", "stopped": "told to stop"}
BEGIN, END = "<!-- tried by tests/launchers -->", "<!-- end -->"
SKIPPED = 77
END_LIMIT = 60   # seconds, from a loss to the end of all processes
RUN_LIMIT = 240  # of a whole training, on a machine that does other things as well


class Trial:
    """One launcher on machines of its own."""

    def __init__(self, name: str, folder: pathlib.Path, daso: str, python: str):
        self.folder = folder
        self.machines = Machines(folder)
        self.launcher = LAUNCHERS[name](self.machines, daso, python)
        self.log = folder / "cell.log"

    def row(self, cells: list[str]) -> list[str]:
        return [self.launcher.title, *(self.cell(getattr(self, name)) for name in cells)]

    def cell(self, what) -> str:
        """What happened, or FAILED; every cell has machines of its own."""
        for log in self.folder.glob("*.log"):
            log.unlink()
        training = Training(self.folder / what.__name__, SHORT if what == self.starts else LONG)
        began = time.monotonic()
        try:
            self.machines.up()
            self.launcher.up()
            shown = what(training)
        except Exception:
            traceback.print_exc()
            print(self.printed(), file=sys.stderr)
            shown = "FAILED"
        finally:
            training.kill()
            self.machines.down()
        seconds = time.monotonic() - began
        print(f"{self.launcher.title}, {what.__name__}: {shown} ({seconds:.0f} s)", flush=True)
        return shown

    def printed(self) -> str:
        """The last of what launchers and daemons have said."""
        return "\n".join(f"--- {log.name}\n{log.read_text(errors='replace')[-2000:]}"
                         for log in sorted(self.folder.glob("*.log")))

    def start(self, training: Training, words: list[str]) -> list[subprocess.Popen]:
        return self.launcher.start(training, words, self.log.name)

    def ends(self, training: Training, started: list[subprocess.Popen], limit: float,
             gone: int | None = None) -> list[int]:
        """The exit codes of what was started, when nothing of the training is left."""
        await_that(lambda: all(process.poll() is not None for process in started)
                   and not training.processes(), "all processes have ended", limit)
        return [process.returncode for i, process in enumerate(started) if i != gone]

    # --- the cells ---

    def starts(self, training: Training) -> str:
        codes = self.ends(training, self.start(training, training.words), RUN_LIMIT)
        assert set(codes) == {0}, f"exit codes {codes}"
        assert training.summary()["epochs"] == SHORT, training.summary()
        return "exit 0"

    def rank_killed(self, training: Training) -> str:
        started = self.start(training, training.words)
        training.await_checkpoint(started)
        os.kill(training.rank_on(self.machines, 1), signal.SIGKILL)
        return self.failed(training, started)

    def machine_lost(self, training: Training) -> str:
        started = self.start(training, training.words)
        training.await_checkpoint(started)
        self.machines.stop(1)
        if self.launcher.requeues:
            return self.queued_again(training)
        if self.launcher.waits_for_lost:
            return self.waited_for(training, started)
        return self.failed(training, started, gone=1)

    def queued_again(self, training: Training) -> str:
        """Until there are two machines again."""
        began = time.monotonic()
        await_that(lambda: not training.processes() and
                   self.launcher.state(training.run.name)["JobState"] == "PENDING",
                   "all processes have ended and the job is in the queue", END_LIMIT)
        return f"queued again within {bound(time.monotonic() - began)} s"

    def waited_for(self, training: Training, started: list) -> str:
        began = time.monotonic()
        await_that(lambda: not training.ranks(), "all ranks have ended", END_LIMIT)
        seconds = bound(time.monotonic() - began)
        assert started[0].poll() is None
        signal_inside(started[0], signal.SIGKILL)
        self.ends(training, started, END_LIMIT)
        return f"ranks end within {seconds} s, mpiexec waits"

    def failed(self, training: Training, started: list, gone: int | None = None) -> str:
        began = time.monotonic()
        codes = self.ends(training, started, END_LIMIT, gone)
        assert 0 not in codes and 75 not in codes, f"exit codes {codes} after a loss"
        return f"exit {shown_codes(codes)} within {bound(time.monotonic() - began)} s"

    def stopped(self, training: Training) -> str:
        started = self.start(training, training.words)
        training.await_checkpoint(started)
        before = training.checkpoints()[-1]
        self.launcher.stop(started)
        if self.launcher.requeues:
            return self.requeued(training, started, before)
        codes = self.ends(training, started, END_LIMIT)
        allowed = self.launcher.stopped_codes
        assert set(codes) <= allowed, f"exit codes {codes} after a stop, not of {allowed}"
        saved = training.checkpoints()[-1]
        assert saved > before, f"no checkpoint after {before}"
        assert training.summary()["finished"] is False, training.summary()
        self.goes_on(training, self.start(training, training.resumed), saved)
        return f"exit {shown_codes(codes)}, saved; `--resume` goes on"

    def goes_on(self, training: Training, started: list, saved: int) -> None:
        codes = self.ends(training, started, RUN_LIMIT)
        assert set(codes) == {0}, f"exit codes {codes} of the resumed run"
        assert training.summary()["steps"] > saved and training.summary()["epochs"] == LONG

    def requeued(self, training: Training, started: list, before: int) -> str:
        codes = self.ends_of_batch(started)
        state = self.launcher.state(training.run.name)
        assert codes == [0] and state["JobState"] == "COMPLETED", f"{codes} {state}"
        assert state["Restarts"] == "1", state
        assert training.summary()["steps"] > before and training.summary()["epochs"] == LONG
        return "exit 75, saved; queued again, goes on"

    def ends_of_batch(self, started: list) -> list[int]:
        # Between two lives of a job it has no process.
        await_that(lambda: started[0].poll() is not None, "the job has ended", RUN_LIMIT)
        return [started[0].returncode]


def shown_codes(codes: list[int]) -> str:
    return " and ".join(str(code) for code in sorted(set(codes)))


def bound(seconds: float) -> int:
    """Rounded up, so that a table tells no more than what holds on another machine, too."""
    return next(limit for limit in (5, 10, 20, 30, 60, 120) if seconds <= limit)


def table_rows(text: str) -> dict[str, str]:
    return {row.split("|")[1].strip(): row for row in text.splitlines() if row.startswith("| ")}


def write(rows: list[list[str]]) -> None:
    """Puts rows into the page; those of launchers that were not tried stay."""
    page = ROOT / "docs/cluster.md"
    text = page.read_text()
    before, rest = text.split(BEGIN)
    old, after = rest.split(END)
    known = table_rows(old)
    known.update({row[0]: markdown(row) for row in rows})
    order = [one.title for one in LAUNCHERS.values()]
    body = [known[title] for title in order if title in known]
    page.write_text(f"{before}{BEGIN}\n{heading(list(CELLS))}\n" + "\n".join(body) + f"\n{END}{after}")


def heading(cells: list[str]) -> str:
    return markdown(["launcher", *(CELLS[name] for name in cells)]) + "\n|---" + "|---" * len(cells) + "|"


def markdown(cells) -> str:
    return "| " + " | ".join(cells) + " |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("daso")
    parser.add_argument("python")
    parser.add_argument("--only", default=",".join(LAUNCHERS), help="names of launchers: "
                        + ", ".join(LAUNCHERS))
    parser.add_argument("--cells", default=",".join(CELLS), help="some of the columns: "
                        + ", ".join(CELLS))
    parser.add_argument("--write", action="store_true", help="with all columns")
    options = parser.parse_args()
    cells = options.cells.split(",")
    for given, known in ((options.only.split(","), LAUNCHERS), (cells, CELLS)):
        unknown = [name for name in given if name not in known]
        if unknown:
            parser.error(f"there is no {unknown[0]}; there are {', '.join(known)}")
    if why := why_none():
        print(why)
        return SKIPPED

    rows = []
    for name in options.only.split(","):
        with tempfile.TemporaryDirectory(prefix=f"daso-{name}-") as folder:
            trial = Trial(name, pathlib.Path(folder), os.path.abspath(options.daso),
                          os.path.abspath(options.python))
            why = trial.launcher.missing()
            if why:
                print(f"{name} is not tried: {why}")
            else:
                rows.append(trial.row(cells))
    print(heading(cells), *(markdown(row) for row in rows), sep="\n")
    if options.write and cells == list(CELLS):
        write(rows)
    if not rows:
        return SKIPPED
    return 1 if any("FAILED" in cell for row in rows for cell in row) else 0


sys.exit(main())
