# SPDX-License-Identifier: Apache-2.0
"""All processes of a run are killed at a random moment, and the run goes on: the same bytes.

Run as: kill_test.py DASO [--kills N] [--seed N]
"""
import argparse
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from kill_run import kill_run


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("daso")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    return parser.parse_args()


asked = arguments()
FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="daso-kills-"))
JOB = ["--data", "synthetic:train=2048,test=128,size=16", "--model", "cnn", "--epochs", "4",
       "--batch-size", "16", "--nodes", "2", "--ranks-per-node", "2", "--json"]  # 32 steps an epoch


def command(run: str, *flags: str) -> list[str]:
    return [asked.daso, "train", *JOB, "--out", str(FOLDER / run), *flags]


def finish(run: str, *flags: str) -> bytes:
    subprocess.run(command(run, *flags), check=True, stdout=subprocess.DEVNULL, timeout=300)
    weights = FOLDER / f"{run}.safetensors"
    subprocess.run([asked.daso, "export", str(FOLDER / run), "--format", "safetensors", "--to",
                    str(weights)], check=True, stdout=subprocess.DEVNULL, timeout=60)
    return weights.read_bytes()


def main() -> None:
    dice = random.Random(asked.seed)
    print(f"seed {asked.seed}")
    begin = time.monotonic()
    expected = finish("whole")
    length = time.monotonic() - begin
    for number in range(asked.kills):
        run = f"killed-{number}"
        moment = dice.uniform(0, length)
        job = subprocess.Popen(command(run, "--checkpoint-every", "3steps"),
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            job.wait(timeout=moment)
        except subprocess.TimeoutExpired:
            pass
        kill_run(FOLDER / run)
        job.wait(timeout=60)
        saved = sorted(FOLDER.joinpath(run, "checkpoints").glob("*/manifest.json"))
        at = saved[-1].parent.name if saved else "its beginning"
        assert finish(run, "--resume") == expected, f"{run}, killed after {moment:.2f} s, from {at}"
        print(f"{run}: killed after {moment:.2f} of {length:.2f} s, went on from {at}: same bytes")


try:
    main()
finally:
    shutil.rmtree(FOLDER)
