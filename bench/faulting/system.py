# SPDX-License-Identifier: Apache-2.0
"""What all of these programs use of the system. Times are seconds of the monotonic clock, which the
kernel's probes use as well (probes.py)."""
import os
import pathlib
import shlex
import signal
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
DASO = ROOT / "build" / "release" / "bin" / "daso"
LIMIT = 60  # seconds, of a command that takes a moment on a machine that is not busy
now = time.monotonic


class Refusal(Exception):
    """Something for the user to mend."""


def run(words: list, what: str, limit: float = LIMIT) -> str:
    """What a command prints."""
    words = [str(word) for word in words]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=limit)
    except FileNotFoundError:
        raise Refusal(f"cannot {what}: there is no program {words[0]}; install it") from None
    except subprocess.TimeoutExpired:
        raise Refusal(f"cannot {what}: no end within {limit} s of: {shlex.join(words)}") from None
    if done.returncode != 0:
        raise Refusal(f"cannot {what}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def send(pid: int, what: signal.Signals) -> None:
    try:
        os.kill(pid, what)
    except ProcessLookupError:
        pass  # it was quicker


def await_that(holds, limit: float, meanwhile=lambda: None) -> bool:
    """Whether it holds within so many seconds; looks often, since faults are timed by it."""
    deadline = now() + limit
    while not holds():
        if now() > deadline:
            return False
        meanwhile()
        time.sleep(0.02)
    return True
