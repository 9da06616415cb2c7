# SPDX-License-Identifier: Apache-2.0
"""Time to accuracy: real training of a real network on real images; only the links are emulated."""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

from compare.runs import ROOT, run

DIGITS = ROOT / "tests" / "digits"
SIDE = 28  # pixels, as many as MNIST has
DATA = ROOT / "build" / f"digits-{SIDE}"
NODES = 4
EPOCHS = 12
BATCH = 8
LEARNING_RATE = 0.05
RATE = "50mbit"
DELAY = "200us"
SEEDS = 5
TARGET = 0.98
BUCKET_MB = 0.2  # DDP's best here, of 0.05, 0.2 and its default, 25
CANDIDATES = {"sync": ["--strategy", "sync"], "ddp": [], "local": ["--strategy", "local"],
              "daso": ["--strategy", "daso"],
              "daso-paper": ["--strategy", "daso", "--preset", "paper"]}
ALONE = "node"  # no traffic between nodes: what computing takes


def command(candidate: str, seed: int, cluster: str, out: str,
            options: argparse.Namespace) -> list[str]:
    ranks = ["--nodes", NODES, "--ranks-per-node", 1, "--cluster", cluster]
    work = ["--epochs", EPOCHS, "--batch-size", BATCH, "--lr", LEARNING_RATE, "--seed", seed]
    if candidate == "ddp":
        words = [options.daso, "run", *ranks, "--", options.python,
                 ROOT / "bench" / "peers" / "train_ddp.py", DATA,
                 "--bucket-mb", BUCKET_MB, *work]
    else:
        kind = CANDIDATES.get(candidate, ["--strategy", candidate])
        words = [options.daso, "train", "--data", f"idx:{DATA}", "--model", "cnn", *kind, *ranks,
                 *work, "--trace", "none", "--out", out, "--json"]
    return [str(word) for word in words]


def prepare(options: argparse.Namespace) -> None:
    subprocess.run([options.python, ROOT / "bench" / "peers" / "idx.py", DIGITS, DATA, str(SIDE)],
                   check=True, timeout=options.limit)


def train(candidate: str, seed: int, cluster: str, options: argparse.Namespace) -> dict:
    """One training: seconds and test accuracy after each epoch, and what it cost."""
    with tempfile.TemporaryDirectory() as scratch:
        out = pathlib.Path(scratch) / "run"
        found = run(command(candidate, seed, cluster, str(out), options), options.limit)
        if candidate == "ddp":
            curve = found["epochs"]
        else:
            records = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
            curve = [[one["seconds"], one["test_accuracy"]] for one in records
                     if "test_accuracy" in one]
    return {"seed": seed, "curve": curve, "steps": found["steps"], "seconds": found["seconds"],
            "test_accuracy": found["test_accuracy"],
            "bytes_between_nodes": found.get("bytes_between_nodes")}


def seconds_to(curve: list[list[float]], target: float) -> float | None:
    """When an epoch ended with the target reached."""
    return next((seconds for seconds, accuracy in curve if accuracy >= target), None)


def mean_and_error(values: list[float]) -> tuple[float, float | None]:
    """The mean, and its standard error, which a single value does not have."""
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else None
    return statistics.fmean(values), error


def traffic_to_compute(found: dict) -> tuple[float, float]:
    """Seconds of one step: what sync's traffic takes on its link, and what computing takes."""
    sync = found["runs"]["sync"][0]
    sent = sync["bytes_between_nodes"] / sync["steps"] / NODES
    megabits = float(found["rate"].removesuffix("mbit"))
    alone = found["alone"]
    return sent * 8 / (megabits * 1e6), alone["seconds"] / alone["steps"]
