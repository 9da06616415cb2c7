# SPDX-License-Identifier: Apache-2.0
"""The example of a run of one's own, as its users run it.

    own_run_test.py OWN_RUN DASO
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

OWN_RUN, DASO = sys.argv[1:3]
LIMIT = 120  # seconds


def run(*words, launcher=()):
    done = subprocess.run([*launcher, OWN_RUN, *map(str, words)], capture_output=True, text=True,
                          timeout=LIMIT)
    return done.returncode, done.stdout, done.stderr


def ranks(nodes, ranks_per_node):
    return [DASO, "run", "--nodes", str(nodes), "--ranks-per-node", str(ranks_per_node), "--"]


class OwnRun(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def summary(self, name):
        return json.loads((self.folder / name / "summary.json").read_text())

    def test_learns_the_curve_and_leaves_the_files_of_a_run(self):
        code, _, error = run("--out", self.folder / "a", launcher=ranks(2, 2))
        self.assertEqual(code, 0, error)
        summary = self.summary("a")
        self.assertTrue(summary["finished"])
        # The mean of sin(2x)^2 over the interval is about 0.5: what a constant 0 would reach.
        self.assertLess(summary["test_loss"], 0.1)
        self.assertNotIn("test_accuracy", summary)
        for name in ["report.html", "metrics.jsonl", "config.toml"]:
            self.assertTrue((self.folder / "a" / name).exists(), name)

    def test_goes_on_with_the_same_bits(self):
        self.assertEqual(run("--epochs", 4, "--out", self.folder / "whole")[0], 0)
        self.assertEqual(run("--epochs", 4, "--max-steps", 150, "--out", self.folder / "cut")[0], 0)
        code, _, error = run("--epochs", 4, "--max-steps", 1000, "--resume", "--out",
                             self.folder / "cut")
        self.assertEqual(code, 0, error)
        self.assertEqual(self.summary("cut")["test_loss"], self.summary("whole")["test_loss"])

    def test_refuses_what_it_does_not_know(self):
        code, _, error = run("--epoch", 4)
        self.assertEqual(code, 2)
        self.assertIn("did you mean --epochs?", error)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
