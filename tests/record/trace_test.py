# SPDX-License-Identifier: Apache-2.0
"""trace.json of a run on two nodes of two ranks.

Run as: trace_test.py DASO
"""
import collections
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

DASO = sys.argv.pop(1)
EPOCHS, BATCHES, SKIP, WAIT = 3, 8, 3, 2


class Trace(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="daso-trace-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name) / "run"
        cls.train(cls.folder)
        cls.trace = json.loads((cls.folder / "trace.json").read_text())
        cls.events = cls.trace["traceEvents"]

    @staticmethod
    def train(out: pathlib.Path, *flags: str) -> None:
        subprocess.run([DASO, "train", "--data", "synthetic:train=512,test=64,size=8,channels=1",
                        "--model", "mlp", "--batch-size", "16", "--epochs", str(EPOCHS),
                        "--nodes", "2", "--ranks-per-node", "2", "--schedule", "fixed",
                        "--skip", str(SKIP), "--wait", str(WAIT), "--warmup-epochs", "1",
                        *([] if "--checkpoint-every" in flags else ["--checkpoint-every", "1epochs"]),
                        "--out", str(out), "--json", *flags],
                       check=True, timeout=100, stdout=subprocess.DEVNULL)

    def of(self, category: str, rank: int) -> list[dict]:
        return [e for e in self.events if e.get("cat") == category and e["pid"] == rank + 1]

    def test_all_ranks_did_all_steps(self):
        for rank in range(4):
            steps = [e for e in self.of("training", rank) if e["name"].startswith("step")]
            self.assertEqual([e["args"]["number"] for e in steps], list(range(EPOCHS * BATCHES)))
            names = collections.Counter(e["name"] for e in self.of("training", rank))
            for name in ("forward", "backward", "optimizer"):
                self.assertEqual(names[name], EPOCHS * BATCHES, name)
            self.assertEqual(len(self.of("data", rank)), EPOCHS * BATCHES)
            self.assertEqual(len(self.of("evaluation", rank)), EPOCHS)
            self.assertGreater(len(self.of("waiting", rank)), EPOCHS * BATCHES)
            self.assertGreater(len(self.of("checkpoints", rank)), 0)

    def test_events_lie_inside_their_step(self):
        for rank in range(4):
            steps = {e["args"]["number"]: e for e in self.of("training", rank) if e["name"].startswith("step")}
            for event in self.of("training", rank):
                if event["name"] not in ("forward", "backward", "optimizer"):
                    continue
                step = steps[event["args"]["number"]]
                self.assertGreaterEqual(event["ts"], step["ts"])
                self.assertLessEqual(event["ts"] + event["dur"], step["ts"] + step["dur"])

    def test_exchanges_span_the_steps_that_they_were_hidden_behind(self):
        for rank in range(4):
            ends = {e["args"]["number"]: e["ts"] + e["dur"] for e in self.of("training", rank)
                    if e["name"].startswith("step")}
            flights = self.of("exchanges, start to merge", rank)
            begun = [e for e in flights if e["ph"] == "b"]
            # Two cycling epochs; starts after batches 0, 3 and 6, as skip is 3, and 7 ends the epoch.
            self.assertEqual(len(begun), 6)
            for begin in begun:
                end = next(e for e in flights if e["ph"] == "e" and e["id2"] == begin["id2"])
                hidden = [step for step, moment in ends.items() if begin["ts"] < moment < end["ts"]]
                self.assertIn(len(hidden), (1, WAIT))  # 1: cut short by the epoch's end

    def test_arrows_come_in_pairs_between_nodes(self):
        begins = {e["id"]: e for e in self.events if e["ph"] == "s"}
        ends = {e["id"]: e for e in self.events if e["ph"] == "f"}
        self.assertEqual(set(begins), set(ends))
        self.assertEqual(len(begins), 6 * 2 * 4)  # exchanges, there and back, ranks
        slack = 2 * self.trace["otherData"]["clock_error_microseconds"]
        for name, begin in begins.items():
            self.assertNotEqual((begin["pid"] - 1) // 2, (ends[name]["pid"] - 1) // 2)
            self.assertLess(begin["ts"], ends[name]["ts"] + slack, name)

    def test_rows_have_their_rank_in_their_names(self):
        for rank in range(4):
            own = [e for e in self.events if e["pid"] == rank + 1 and e["ph"] == "M"]
            names = {e["name"]: e["args"]["name"] for e in own if e["name"] == "process_name"}
            self.assertTrue(names["process_name"].startswith(f"node {rank // 2} rank {rank} on "), names)
            rows = {e["args"]["name"] for e in own if e["name"] == "thread_name"}
            self.assertIn(f"rank {rank} waiting", rows)
            self.assertTrue(all(row.startswith(f"rank {rank} ") for row in rows), rows)

    def test_viewers_tell_rows_and_arrows_apart(self):
        """What Perfetto wants: whole numbers for arrows, threads that no process has the number of."""
        processes = {e["pid"] for e in self.events}
        threads = {e["tid"] for e in self.events}
        self.assertFalse(processes & threads)
        self.assertNotIn(0, processes | threads)
        self.assertTrue(all(isinstance(e["id"], int) for e in self.events if e["ph"] in "sf"))

    def test_a_run_that_goes_on_in_mid_flight_has_no_event_before_its_beginning(self):
        whole, rest = self.folder.parent / "whole", self.folder.parent / "rest"
        self.train(whole, "--keep", "100", "--checkpoint-every", "1steps")
        # Step 9 follows the first start of the second epoch; it is merged two steps later.
        self.train(rest, "--resume", str(whole / "checkpoints/step-000000010"))
        trace = json.loads((rest / "trace.json").read_text())
        events = trace["traceEvents"]
        self.assertGreater(sum(e.get("cat") == "exchanges, start to merge" for e in events), 0)
        error = trace["otherData"]["clock_error_microseconds"]
        self.assertGreaterEqual(min(e["ts"] for e in events), -error)

    def test_a_range_of_steps_is_kept_alone(self):
        out = self.folder.parent / "part"
        self.train(out, "--trace", "steps=5..9")
        events = json.loads((out / "trace.json").read_text())["traceEvents"]
        steps = sorted({e["args"]["number"] for e in events if e["name"].startswith("step ")})
        self.assertEqual(steps, [5, 6, 7, 8])
        out = self.folder.parent / "none"
        self.train(out, "--trace", "none")
        self.assertFalse((out / "trace.json").exists())


if __name__ == "__main__":
    unittest.main()
