# SPDX-License-Identifier: Apache-2.0
"""Runs of `daso train --on-failure continue` for tests that do harm to them."""
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "run"))
from kill_run import kill_run, processes_of

DASO = sys.argv[1]
LIMIT = 120  # seconds, far above what any of it takes
PEER_LOST, STOPPED = 3, 75
DIGITS = f"idx:{ROOT / 'tests' / 'digits'}"
EPOCHS = 150  # as many as a node needs to come back before the run is over
ENDLESS = 100000
ACCURACY = 0.975  # this run without faults has 0.985, with whichever strategy


def await_that(holds, what: str, limit: float = LIMIT) -> None:
    deadline = time.monotonic() + limit
    while not holds():
        assert time.monotonic() < deadline, f"not within {limit} s: {what}"
        time.sleep(0.02)  # others need the cores


def rank_of(pid: int) -> int | None:
    """Of a process of the run; none: it is not a rank."""
    try:
        environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None  # it has ended
    ranks = [text[5:] for text in environment if text.startswith(b"RANK=")]
    of_launcher = any(text.startswith(b"DASO_LAUNCHER_LINE=") for text in environment)
    return int(ranks[0]) if ranks and of_launcher else None


class SurvivingRun(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="daso-survival-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.out = self.folder / "run"
        self.said = self.folder / "said"

    def start(self, *flags: str, epochs: int = EPOCHS, backend: str = "tcp",
              nodes: int = 2, ranks: int = 1, batch: int = 16, data: str = DIGITS,
              environment: dict[str, str] | None = None) -> subprocess.Popen:
        with self.said.open("ab") as said:
            run = subprocess.Popen(
                [DASO, "train", "--data", data, "--model", "mlp", "--batch-size", str(batch), "--epochs",
                 str(epochs), "--nodes", str(nodes), "--ranks-per-node", str(ranks), "--backend",
                 backend, "--on-failure", "continue", "--timeout", "20", "--out", str(self.out),
                 *flags],
                stdout=said, stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})})
        self.addCleanup(run.wait)
        self.addCleanup(kill_run, self.out)
        return run

    def text(self) -> str:
        return self.said.read_text(errors="replace")

    def await_training(self) -> None:
        await_that(lambda: re.search(r"^epoch +\d+ of ", self.text(), re.M), "the first epoch")

    def kill(self, *ranks: int) -> None:
        # Before any is killed: its launcher ends the others of its node.
        doomed = [pid for pid in processes_of(self.out) if rank_of(pid) in ranks]
        self.assertEqual(len(ranks), len(doomed), self.text())
        for pid in doomed:
            os.kill(pid, signal.SIGKILL)

    def end_of(self, run: subprocess.Popen) -> int:
        await_that(lambda: run.poll() is not None, "the end of a launcher")
        return run.returncode

    def assert_finished(self, run: subprocess.Popen) -> None:
        self.assertEqual(0, self.end_of(run), self.text())
        accuracy = re.findall(r"accuracy ([0-9.]+), top-5 .* after \d+ steps", self.text())
        self.assertTrue(accuracy, self.text())
        self.assertGreater(float(accuracy[-1]), ACCURACY)

    def launchers(self, nodes: int) -> tuple[list[str], str]:
        """The flags of each launcher of a job, and where they listen."""
        ports = [socket.create_server(("127.0.0.1", 0)) for _ in range(nodes)]
        places = ",".join(f"127.0.0.1:{one.getsockname()[1]}" for one in ports)
        for one in ports:
            one.close()
        (self.folder / "token").write_text("secret\n")
        return ["--job-token-file", str(self.folder / "token"), "--node-index"], places
