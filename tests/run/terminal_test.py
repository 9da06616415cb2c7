# SPDX-License-Identifier: Apache-2.0
"""What `daso train` shows on a terminal, and where there is none.

Run as: terminal_test.py DASO
"""
import fcntl
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

DASO = sys.argv.pop(1)
JOB = ["--data", "synthetic:train=512,test=128,size=8,channels=1", "--model", "mlp", "--batch-size", "16",
       "--schedule", "fixed", "--warmup-epochs", "1"]
BAR = re.compile(r"epoch \d+ of \d+ \[#*\.*\] [^\r\n]*")


def resize(terminal: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


class Terminal(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="daso-terminal-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def start(self, columns: int, *flags: str) -> int:
        """A job that has a terminal to itself, and the other end of that."""
        terminal, end = pty.openpty()
        self.addCleanup(os.close, terminal)
        resize(end, columns)

        def own_terminal() -> None:
            os.setsid()
            fcntl.ioctl(end, termios.TIOCSCTTY, 0)

        job = subprocess.Popen([DASO, "train", *JOB, *flags, "--out", str(self.folder / "run")],
                               stdin=end, stdout=end, stderr=end, preexec_fn=own_terminal)
        self.addCleanup(job.wait, 60)
        self.addCleanup(os.killpg, job.pid, signal.SIGKILL)
        os.close(end)
        return terminal

    def read_until(self, terminal: int, enough) -> str:
        shown = ""
        deadline = time.monotonic() + 120
        while not enough(shown):
            ready = select.select([terminal], [], [], max(0, deadline - time.monotonic()))[0]
            self.assertTrue(ready, f"nothing more after {shown[-2000:]}")
            shown += os.read(terminal, 65536).decode()
        return shown

    def test_a_bar_follows_a_window_that_becomes_narrower(self):
        for ranks in ("2", "1"):  # with a launcher between rank and terminal, and without
            with self.subTest(ranks):
                terminal = self.start(100, "--nodes", "1", "--ranks-per-node", ranks, "--epochs", "9000")
                wide = self.read_until(terminal, lambda shown: len(BAR.findall(shown)) > 3)
                self.assertTrue(60 <= max(map(len, BAR.findall(wide))) < 100, wide)
                resize(terminal, 60)
                # One may be on its way; what follows a short one is short.
                narrow = self.read_until(terminal, lambda shown: sum(len(bar) < 60 for bar in BAR.findall(shown)) > 5)
                bars = BAR.findall(narrow)
                first = next(i for i, bar in enumerate(bars) if len(bar) < 60)
                self.assertLess(max(map(len, bars[first:-1])), 60)
                self.assertIn("loss", bars[first])
                self.doCleanups()
                self.setUp()

    def test_lines_fit_a_hundred_columns(self):
        done = subprocess.run([DASO, "train", *JOB, "--nodes", "2", "--ranks-per-node", "2", "--epochs", "3",
                               "--skip", "32", "--wait", "16", "--out", str(self.folder / "run")],
                              text=True, capture_output=True, timeout=120)
        self.assertEqual(0, done.returncode, done.stderr)
        lines = [line for line in done.stdout.splitlines() if line.startswith("epoch ")]
        self.assertEqual(3, len(lines), done.stdout)
        for line in lines:
            self.assertLessEqual(len(line), 100, line)
            for part in ("loss", "test loss", "accuracy"):
                self.assertIn(part, line)
        self.assertNotIn("\033", done.stdout)


if __name__ == "__main__":
    unittest.main()
