# SPDX-License-Identifier: Apache-2.0
"""The same run by script, without faults, must end with the same bytes."""
import hashlib
import os
import pathlib
import shutil
import signal
import subprocess

LIMIT = 600     # seconds, from when it alone is waited for
PATIENCE = 300  # of its ranks with each other: they get little time meanwhile
NICENESS = 10


def newest_checkpoint(out: pathlib.Path) -> pathlib.Path | None:
    return max((out / "checkpoints").glob("step-*"), default=None)


def digests(folder: pathlib.Path) -> dict[str, str]:
    """Of the tensors of a checkpoint; the manifest has times in it."""
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name != "manifest.json"}


class Replay:
    """Of a run that is over; at work while the next one is, with what processor time that leaves:
    nodes stand still for about half of a campaign. Where it is not equal its folder and the run's
    are kept, to be looked at."""

    def __init__(self, daso: pathlib.Path, out: pathlib.Path, kept: pathlib.Path):
        self.kept, self.run, self.again = kept, kept / "run", kept / "replayed"
        shutil.copytree(out, self.run)  # its disk is the next run's
        self.program = None
        if newest_checkpoint(self.run) is None:
            return
        with open(kept / "replay.log", "w") as log:
            self.program = subprocess.Popen(
                [daso, "train", "--replay", self.run, "--out", self.again, "--timeout",
                 str(PATIENCE), "--join-timeout", str(PATIENCE)], stdout=log, stderr=log,
                stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=be_modest)

    def verdict(self) -> dict:
        found = self.compare()
        if found["equal"]:
            for folder in (self.run, self.again):
                shutil.rmtree(folder)
        return found

    def compare(self) -> dict:
        if self.program is None:
            return {"verdict": "the run has left no checkpoint", "equal": False}
        try:
            code = self.program.wait(LIMIT)
        except subprocess.TimeoutExpired:
            self.end()
            return {"verdict": f"no end within {LIMIT} s", "equal": False}
        if code != 0:
            last = (self.kept / "replay.log").read_text().strip().splitlines()[-1:] or [""]
            return {"verdict": f"exit code {code}: {last[0]}", "equal": False}
        before, after = (newest_checkpoint(out) for out in (self.run, self.again))
        if after is None or before.name != after.name:
            return {"verdict": f"ends with {after and after.name}, not {before.name}",
                    "equal": False}
        first, second = digests(before), digests(after)
        differing = sorted(name for name in first.keys() | second.keys()
                           if first.get(name) != second.get(name))
        return {"verdict": f"differs in {', '.join(differing)}" if differing else "equal",
                "equal": not differing}

    def end(self) -> None:
        if self.program and self.program.poll() is None:
            os.killpg(self.program.pid, signal.SIGKILL)
            self.program.wait(30)


def be_modest() -> None:
    os.nice(NICENESS)
