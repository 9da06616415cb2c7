# SPDX-License-Identifier: Apache-2.0
"""Runs of programs, and the clusters that they run on."""
import contextlib
import json
import os
import pathlib
import shlex
import signal
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CLUSTER_TOOL = ROOT / "bench" / "cluster" / "daso-cluster"
TOLD_BY = (signal.SIGINT, signal.SIGTERM)  # to end
GRACE = 10  # seconds, from asking a run to end to killing it
CLUSTER_LIMIT = 240  # the first cluster compiles a program


class Refusal(Exception):
    """Something for the user to mend."""


class Failure(Exception):
    """A run that did not end well."""


def run(words: list[str], limit: int) -> dict:
    """The JSON object that a run prints."""
    process = None
    try:
        with undisturbed():  # a run that has begun and has no name here could not be ended
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True, cwd=ROOT,
                                       env={**os.environ, "OMP_NUM_THREADS": "1"})
        output, error = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        end(process)
        raise Failure(f"a run took longer than --limit {limit} s: {shlex.join(words)}") from None
    except BaseException:
        if process:
            end(process)
        raise
    if process.returncode != 0:
        raise Failure(f"a run ended with exit code {process.returncode}: {shlex.join(words)}\n"
                      f"{error.strip()}")
    try:
        return json.loads(output)
    except json.JSONDecodeError:
        raise Failure(f"a run printed no JSON object: {shlex.join(words)}\n"
                      f"{output.strip()}") from None


def end(process: subprocess.Popen) -> None:
    """A launcher takes its ranks with it, however it ends."""
    process.terminate()
    try:
        process.communicate(timeout=GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(GRACE)


@contextlib.contextmanager
def cluster(nodes: int, rate: str, delay: str):
    """The name of a cluster that is there until the block ends."""
    name = f"peers{os.getpid()}"

    def tool(*words: str) -> None:
        # A session of its own: what the terminal interrupts is this program, not its cleaning up.
        done = subprocess.run([CLUSTER_TOOL, *words, "--name", name], text=True,
                              capture_output=True, timeout=CLUSTER_LIMIT, start_new_session=True)
        if done.returncode != 0:
            raise Refusal(done.stderr.strip())

    try:
        limits = [] if rate == "unlimited" else ["--rate", rate]
        tool("up", "--nodes", str(nodes), *limits, "--delay", delay)
        yield name
    finally:
        for number in TOLD_BY:
            signal.signal(number, signal.SIG_IGN)
        tool("down")
        listen()


@contextlib.contextmanager
def undisturbed():
    """Being told to end waits until the block ends."""
    told = []
    before = {number: signal.signal(number, lambda *_: told.append(True)) for number in TOLD_BY}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if told:
        raise KeyboardInterrupt


def listen() -> None:
    """Being told to end ends a run, its cluster and this program, in this order."""
    def told_to_end(*_):
        raise KeyboardInterrupt

    for number in TOLD_BY:
        signal.signal(number, told_to_end)
