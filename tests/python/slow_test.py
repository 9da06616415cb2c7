# SPDX-License-Identifier: Apache-2.0
"""What takes minutes: killed runs that go on with the same bytes, and accuracy beside the program's.

Run as: slow_test.py DASO PYTHON FOLDER_OF_THE_PACKAGE [--kills N]
"""

import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "run"))
from kill_run import kill_run

DASO, PYTHON, PACKAGE = sys.argv[1:4]
KILLS = 20
DIGITS = HERE.parent / "digits"
ENVIRONMENT = {**os.environ, "PYTHONPATH": PACKAGE, "DASO_PROGRAM": DASO, "OMP_NUM_THREADS": "1"}
TWO_NODES = [DASO, "run", "--nodes", "2", "--ranks-per-node", "1", "--"]


def call(*words: str) -> str:
    done = subprocess.run(words, text=True, capture_output=True, timeout=300, env=ENVIRONMENT)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


class Slow(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="daso-python-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def test_runs_that_were_killed_go_on_with_the_same_bytes(self):
        seed = random.randrange(10**6)
        dice = random.Random(seed)
        job = [*TWO_NODES, PYTHON, str(HERE / "job.py"), "plain"]
        whole = self.folder / "whole"
        begin = time.monotonic()
        call(*job, str(whole))
        length = time.monotonic() - begin
        expected = (whole / "model.safetensors").read_bytes()
        went_on = 0
        for number in range(KILLS):
            out = self.folder / f"killed{number}"
            running = subprocess.Popen(
                [*job, str(out)], env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            time.sleep(dice.uniform(0.3, 1) * length)  # the moment is what is tried
            kill_run(out)
            running.wait(30)
            saved = bool(list(out.glob("checkpoints/*/manifest.json")))
            went_on += saved
            call(*job, str(out), *(["resume=True"] if saved else []))
            found = (out / "model.safetensors").read_bytes()
            self.assertEqual(found, expected, f"kill {number}, seed {seed}")
            shutil.rmtree(out)
        print(f"{KILLS} kills, {went_on} of them after a checkpoint, seed {seed}: the same bytes")

    def test_digits_are_learnt_as_by_the_program(self):
        python, program = [], []
        for seed in (1, 2, 3):
            out = str(self.folder / f"python{seed}")
            said = call(*TWO_NODES, PYTHON, str(HERE / "digits.py"), str(DIGITS), str(seed), out)
            python.append(float(said.split("accuracy: ")[1]))
            out = str(self.folder / f"program{seed}")
            flags = ["--data", f"idx:{DIGITS}", "--model", "mlp", "--epochs", "20", "--lr", "0.1"]
            flags += ["--batch-size", "16", "--nodes", "2", "--ranks-per-node", "1", "--json"]
            said = call(DASO, "train", *flags, "--seed", str(seed), "--out", out)
            program.append(json.loads(said)["test_accuracy"])
        print(f"accuracy in Python {python}, by the program {program}")
        self.assertLess(abs(statistics.mean(python) - statistics.mean(program)), 0.01)


if __name__ == "__main__":
    words = sys.argv[4:]
    if words[:1] == ["--kills"]:
        KILLS = int(words[1])
        words = words[2:]
    unittest.main(argv=sys.argv[:1] + words)
