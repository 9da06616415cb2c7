# SPDX-License-Identifier: Apache-2.0
"""Which rules keep accuracy: differences between strategies in the same run of this test.

Run as: accuracy_test.py DASO [unittest's arguments]
"""
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import unittest

DASO = sys.argv.pop(1)
DIGITS = pathlib.Path(__file__).parent.parent / "digits"
POINT = 0.01


class Accuracy(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="daso-accuracy-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.runs = 0

    def train(self, *flags: str) -> dict:
        self.runs += 1
        done = subprocess.run([DASO, "train", *flags, "--json", "--out",
                               str(self.folder / str(self.runs))], text=True, capture_output=True,
                              timeout=600)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def accuracy(self, seeds: int, *flags: str) -> float:
        found = [self.train(*flags, "--seed", str(seed))["test_accuracy"]
                 for seed in range(1, seeds + 1)]
        print(f"{statistics.mean(found):.4f} of {found}: {' '.join(flags)}", flush=True)
        return statistics.mean(found)

    def digits(self, nodes: int, *flags: str, seeds: int = 5) -> float:
        return self.accuracy(seeds, "--data", f"idx:{DIGITS}", "--model", "mlp", "--nodes",
                             str(nodes), "--ranks-per-node", "1", "--epochs", "30", "--batch-size",
                             "8", "--weight-decay", "0", *flags)

    def test_the_default_keeps_the_accuracy_of_sync(self):
        job = ["--model", "cnn", "--nodes", "4", "--ranks-per-node", "1", "--epochs", "6"]
        sync = self.accuracy(3, *job, "--strategy", "sync")
        daso = self.accuracy(3, *job, "--strategy", "daso")
        self.assertGreater(sync, 0.9)
        self.assertGreater(daso, sync - POINT)

    def test_corrected_merges_keep_it_with_rare_and_late_exchanges(self):
        sync = self.digits(8, "--lr", "0.05", "--strategy", "sync")
        self.assertGreaterEqual(sync, 0.965)
        for skip, wait in [(1, 1), (4, 1), (8, 2), (16, 4)]:
            daso = self.digits(8, "--lr", "0.05", "--strategy", "daso", "--schedule", "fixed",
                               "--skip", str(skip), "--wait", str(wait), "--warmup-epochs", "2",
                               "--wire", "fp32")
            self.assertGreater(daso, sync - 0.8 * POINT, (skip, wait))
        int8 = self.digits(8, "--lr", "0.05", "--strategy", "daso", "--schedule", "fixed",
                           "--skip", "4", "--wait", "1", "--warmup-epochs", "2", "--wire", "int8")
        self.assertGreater(int8, sync - POINT)

    def test_a_period_that_follows_the_rate_keeps_it(self):
        sync = self.digits(8, "--lr", "0.1", "--strategy", "sync")
        daso = self.digits(8, "--lr", "0.1", "--strategy", "daso")
        self.assertGreater(daso, sync - 0.8 * POINT)

    def test_clipping_saves_long_periods(self):
        clipped = self.digits(8, "--lr", "0.1", "--strategy", "daso", "--schedule", "fixed",
                              "--skip", "32", "--wait", "8", "--warmup-epochs", "2", "--wire",
                              "fp32", "--clip-norm", "1")
        self.assertGreater(clipped, 0.965)

    def test_the_paper_rule_loses_progress_on_many_nodes(self):
        """Guards the formula: with (1, 1) it keeps a ninth of each node's progress on 16 nodes."""
        flags = ["--lr", "0.025", "--strategy", "daso", "--schedule", "fixed", "--skip", "1",
                 "--wait", "1", "--warmup-epochs", "2", "--wire", "fp32"]
        corrected = self.digits(16, *flags, "--merge", "corrected", seeds=3)
        paper = self.digits(16, *flags, "--merge", "paper", seeds=3)
        self.assertGreater(corrected, paper + 3 * POINT)


if __name__ == "__main__":
    unittest.main(verbosity=2)
