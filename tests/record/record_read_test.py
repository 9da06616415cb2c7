# SPDX-License-Identifier: Apache-2.0
"""What a training loop of one's own leaves with daso::Record, read by those who read a run's files.

Run as: record_read_test.py DASO OWN_MODEL, by a Python that has the package tensorboard; without it that part is skipped.
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError:
    EventAccumulator = None

DASO, OWN_MODEL = sys.argv[1:3]
EPOCHS, BATCHES, RANKS = 20, 64, 4


def run(*command: str) -> str:
    done = subprocess.run(command, text=True, capture_output=True, timeout=100)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


class OwnLoop(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="daso-record-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name) / "run"
        cls.output = run(DASO, "run", "--nodes", "2", "--ranks-per-node", "2", "--", OWN_MODEL, str(cls.folder))
        cls.records = [json.loads(line) for line in (cls.folder / "metrics.jsonl").read_text().splitlines()]

    def test_records_are_of_every_tenth_step_and_of_epoch_ends(self):
        steps = EPOCHS * BATCHES
        expected = [s for s in range(steps) if s % 10 == 0 or s % BATCHES == BATCHES - 1]
        self.assertEqual([r["step"] for r in self.records], expected)
        self.assertIn(f"loss {self.records[-1]['train_loss']:.4f}", self.output)
        self.assertGreater(self.records[-1]["bytes_between_nodes"], 0)
        self.assertIn("late_rank", self.records[-1])

    def test_the_summary_adds_up(self):
        summary = json.loads((self.folder / "summary.json").read_text())
        self.assertEqual((summary["steps"], summary["epochs"], summary["nodes"], summary["ranks"]),
                         (EPOCHS * BATCHES, EPOCHS, 2, RANKS))
        self.assertNotIn("test_accuracy", summary)  # the example has no test part
        samples = summary["samples_per_second"] * summary["seconds"]
        self.assertAlmostEqual(samples, EPOCHS * BATCHES * 64 * RANKS, delta=1e-3)
        for node in summary["time_budget"]:
            parts = ("compute", "exposed_communication", "data", "evaluation", "checkpoint")
            self.assertAlmostEqual(sum(node[part] for part in parts), node["seconds"], places=6)
            self.assertGreater(node["exposed_communication"], 0)
            self.assertGreater(node["compute"], 0)

    def test_report_makes_a_page(self):
        page = self.folder / "again.html"
        run(DASO, "report", str(self.folder), "--to", str(page))
        self.assertIn('data-field="steps" data-value="1280"', page.read_text())
        self.assertNotIn("still going", page.read_text())
        self.assertIn('id="budget"', (self.folder / "report.html").read_text())

    def test_top_shows_the_end(self):
        view = run(DASO, "top", "--once", str(self.folder))
        self.assertIn("finished after", view)
        self.assertIn("step 1280 of 1280", view)
        self.assertIn("own model", view)

    def test_the_trace_has_the_first_steps_of_all_ranks(self):
        events = json.loads((self.folder / "trace.json").read_text())["traceEvents"]
        for rank in range(RANKS):
            own = [e for e in events if e["pid"] == rank + 1]
            steps = [e["args"]["number"] for e in own if e["name"].startswith("step ")]
            self.assertEqual(steps, list(range(200)))
            self.assertTrue(any(e.get("cat") == "waiting" for e in own))

    @unittest.skipIf(EventAccumulator is None, "no tensorboard")
    def test_tensorboard_reads_the_same(self):
        read = EventAccumulator(str(self.folder), size_guidance={"scalars": 0})
        read.Reload()
        self.assertEqual([v.step for v in read.Scalars("train/loss")], [r["step"] for r in self.records])
        for value, record in zip(read.Scalars("train/loss"), self.records, strict=True):
            self.assertAlmostEqual(value.value, record["train_loss"], delta=1e-6)
        phases = {"warmup": 0, "cycling": 1, "cooldown": 2}
        self.assertEqual([v.value for v in read.Scalars("schedule/phase")], [phases[r["phase"]] for r in self.records])
        self.assertNotIn("test/loss", read.Tags()["scalars"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
