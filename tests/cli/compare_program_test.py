# SPDX-License-Identifier: Apache-2.0
"""`daso compare` as its users run it.

Run as: compare_program_test.py DASO
"""
import csv
import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

DASO = sys.argv.pop(1)
JOB = ["--data", "synthetic:train=256,test=64,size=8,channels=1", "--model", "mlp", "--batch-size", "16",
       "--nodes", "2", "--ranks-per-node", "1"]


def daso(*arguments: str, code: int = 0) -> subprocess.CompletedProcess:
    done = subprocess.run([DASO, *arguments], text=True, capture_output=True, timeout=120)
    assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done


class Compare(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="daso-compare-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.out = self.folder / "out"

    def rows(self) -> list[dict]:
        return json.loads((self.out / "compare.json").read_text())["rows"]

    def test_seeds_and_flags_of_each_candidate(self):
        table = self.folder / "table.csv"
        done = daso("compare", *JOB, "--epochs", "2", "--strategies", "sync,daso:skip=8:wire=int4", "--seeds", "3",
                    "--csv", str(table), "--out", str(self.out))
        self.assertIn("seed 1 of 3: epoch 1 of 2 done by all 3", done.stdout)
        self.assertRegex(done.stdout, r"done by all 3, \d+ s left\n")
        self.assertIn("after 2 of 3 seeds:\n", done.stdout)
        rows = self.rows()
        self.assertEqual(["sync", "daso:skip=8:wire=int4"], [row["strategy"] for row in rows])
        self.assertEqual([3, 3], [row["seeds"] for row in rows])
        self.assertIsNone(rows[0]["test_accuracy_difference_margin"])
        self.assertGreater(rows[1]["train_loss_difference_margin"], 0)
        self.assertIn("95 % confidence interval", done.stdout)
        with open(table, newline="") as file:
            lines = list(csv.DictReader(file))
        for line, row in zip(lines, rows, strict=True):
            self.assertEqual(line["strategy"], row["strategy"])
            self.assertEqual(float(line["test_accuracy"]), row["test_accuracy"])
        # All seeds are in the report, as two things.
        page = (self.out / "report.html").read_text()
        self.assertIn("<h1>6 runs: 2 candidates with 3 seeds each</h1>", page)
        drawn = json.loads(re.search(r'id="runs">(.*?)</script>', page)[1])
        self.assertEqual([("sync", 3), ("daso:skip=8:wire=int4", 3)], [(run["label"], run["seeds"]) for run in drawn])
        self.assertIn("train_loss_low", drawn[0])
        # A run of it is a run as any other.
        run = pathlib.Path(rows[1]["runs"][2])
        configuration = (run / "config.toml").read_text()
        for line in ("skip = 8", 'wire = "int4"', "seed = 3"):
            self.assertIn(line, configuration)
        score = json.loads(daso("eval", str(run), "--json").stdout)
        self.assertAlmostEqual(score["test_accuracy"], json.loads((run / "summary.json").read_text())["test_accuracy"])

    def test_what_is_stopped_later_keeps_the_seeds_before(self):
        job = subprocess.Popen([DASO, "compare", *JOB, "--epochs", "3", "--strategies", "sync,local", "--seeds", "1000",
                                "--csv", str(self.folder / "table.csv"), "--out", str(self.out)],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(job.kill)
        deadline = time.monotonic() + 120
        while not (self.out / "compare.json").exists() or not list(self.out.glob("*-seed2/metrics.jsonl")):
            self.assertTrue(time.monotonic() < deadline and job.poll() is None, "no seed is done")
            time.sleep(0.02)  # the job needs the cores
        job.send_signal(signal.SIGTERM)
        shown = job.communicate(timeout=60)[0]
        self.assertNotEqual(0, job.returncode)
        self.assertIn("after 1 of 1000 seeds:\nstrategy", shown)
        self.assertEqual(["sync", "local"], [row["strategy"] for row in self.rows()])
        self.assertEqual(3, len((self.folder / "table.csv").read_text().splitlines()))
        self.assertTrue((self.out / "report.html").exists())

    def test_refuses_what_cannot_be(self):
        for flags, said in (
            (["--strategies", "daso:skp=8"], "'daso:skp=8': there is no flag --skp; did you mean skip?"),
            (["--strategies", "sync:wire=int8"], "'sync:wire=int8': --wire changes nothing here"),
            (["--strategies", "daso:seed=3"], "--seed cannot differ between candidates"),
            (["--csv", str(self.folder)], "is a folder; name the file to write"),
            (["--csv", str(self.folder / "none/x.csv")], "there is no folder"),
        ):
            done = daso("compare", *JOB, *flags, "--out", str(self.out), code=2)
            self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main()
