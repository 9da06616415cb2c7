# SPDX-License-Identifier: Apache-2.0
"""bench/step_table: with a stand-in for daso, with real ranks, and on a cluster (needs root).

Run as: step_table_test.py DASO CLASS...
"""
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

DASO = sys.argv[1]
TOOL = str(pathlib.Path(__file__).resolve().parent.parent.parent / "bench" / "step_table")
LIMIT = 100  # seconds, of everything that should take much less
# Says what it was called with, and what a run would: seconds that grow from call to call.
ANSWER = """#!/bin/sh
[ "$1" = --version ] && exec echo daso 0
echo "$@" >> "{folder}/calls"
calls=$(wc -l < "{folder}/calls")
echo '{{"seconds_per_step": '"$calls"', "wait_seconds": 0.5, "bytes_between_nodes": 1000}}'
"""
FAIL = """#!/bin/sh
echo the reason >&2
exit 3
"""
HANG = """#!/bin/sh
echo $$ > "{folder}/pid"
exec sleep 1000
"""


class StepTableCase(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.results = self.folder / "results.json"

    def stand_in(self, text: str) -> str:
        program = self.folder / "daso"
        program.write_text(text.format(folder=self.folder))
        program.chmod(0o755)
        return str(program)

    def call(self, *words: str, expect: int = 0) -> tuple[str, str]:
        done = subprocess.run([TOOL, *words], text=True, capture_output=True, timeout=LIMIT)
        self.assertEqual(done.returncode, expect, done.stderr)
        return done.stdout, done.stderr


class WithStandIn(StepTableCase):
    def test_candidates_take_turns_and_medians_count(self):
        shown, _ = self.call("--daso", self.stand_in(ANSWER), "--cells", "free", "--candidates",
                             "none,daso,ddp", "--python", sys.executable, "--alternations", "3",
                             "--json", str(self.results))
        calls = [line.split() for line in (self.folder / "calls").read_text().splitlines()]
        names = [words[words.index("--strategy") + 1] if words[0] == "bench" else words[0]
                 for words in calls]
        self.assertEqual(names, ["none", "daso", "run", "daso", "run", "none", "run", "none",
                                 "daso"])
        cells = json.loads(self.results.read_text())["cells"]
        self.assertEqual([cell["name"] for cell in cells], ["free"])
        # The stand-in's seconds are the number of the call, counted from 1.
        self.assertEqual([(one["candidate"], one["seconds"]) for one in cells[0]["results"]],
                         [("none", [1, 6, 8]), ("daso", [2, 4, 9]), ("ddp", [3, 5, 7])])
        rows = {line.split()[0]: line.split() for line in shown.splitlines()[2:]}
        self.assertEqual(rows["none"][1], "6.0000")
        self.assertEqual(rows["daso"][1:6], ["4.0000", "2.0000", "…", "9.0000", "0.667"])

    def test_peers_and_strategies_do_the_same_work(self):
        self.call("--daso", self.stand_in(ANSWER), "--cells", "free", "--candidates",
                  "node,ddp,ddp-buckets,ddp-bf16", "--python", sys.executable, "--alternations",
                  "1", "--parameters", "999", "--bucket-mb", "0.5")
        calls = (self.folder / "calls").read_text().splitlines()
        for call in calls:
            for words in ("--nodes 4 --ranks-per-node 2", "--layers 20 --parameters 999",
                          "--forward-ms 80 --backward-ms 160", "--steps 20 --warmup-steps 8"):
                self.assertIn(words, call)
        self.assertIn("--skip 4 --wait 2 --exchange sharded --wire int8 --json", calls[0])
        self.assertIn("--hook none --layers", calls[1])
        self.assertIn("--hook none --bucket-mb 0.5", calls[2])
        self.assertIn("--hook bf16 --bucket-mb 0.5", calls[3])

    def test_a_failed_run_ends_it(self):
        words = ["--cells", "free", "--candidates", "none", "--json", str(self.results)]
        _, error = self.call("--daso", self.stand_in(FAIL), *words, expect=1)
        self.assertIn("exit code 3", error)
        self.assertIn("the reason", error)
        _, error = self.call("--daso", self.stand_in("#!/bin/sh\necho hello\n"), *words, expect=1)
        self.assertIn("no JSON object", error)
        _, error = self.call("--daso", self.stand_in(HANG), *words, "--limit", "1", expect=1)
        self.assertIn("longer than --limit 1 s", error)
        hung = int((self.folder / "pid").read_text())
        self.assertFalse(pathlib.Path(f"/proc/{hung}").exists())
        self.assertFalse(self.results.exists())

    def test_wrong_use_is_refused_before_anything_runs(self):
        daso = self.stand_in(ANSWER)
        for words, reason in ((["--candidates", "none,nod"], "takes some of"),
                              (["--cells", "free,free"], "each once"),
                              (["--alternations", "0"], "at least 1"),
                              (["--cells", "free", "--alternations", "4", "--write"], "at least 5"),
                              (["--cells", "free", "--json", "/no/such/file"], "no folder"),
                              (["--cells", "free", "--python", "/no/such"], "no program")):
            _, error = self.call("--daso", daso, *words, expect=2)
            self.assertIn(reason, error)
        self.assertFalse((self.folder / "calls").exists())


class WithRanks(StepTableCase):
    def test_a_small_table(self):
        shown, _ = self.call("--daso", DASO, "--cells", "free", "--candidates", "none,node,daso",
                             "--alternations", "1", "--nodes", "2", "--ranks-per-node", "2",
                             "--steps", "4", "--warmup-steps", "4", "--layers", "7",
                             "--parameters", "5000", "--forward-ms", "1", "--backward-ms", "2",
                             "--json", str(self.results))
        self.assertEqual([line.split()[0] for line in shown.splitlines()],
                         ["free:", "candidate", "none", "node", "daso"])
        results = {one["candidate"]: one
                   for one in json.loads(self.results.read_text())["cells"][0]["results"]}
        for one in results.values():
            self.assertGreaterEqual(one["seconds"][0], 0.003)
        self.assertEqual(results["none"]["bytes_between_nodes"], 0)
        self.assertGreater(results["daso"]["bytes_between_nodes"], 0)


class OnCluster(StepTableCase):
    def start(self, daso: str) -> tuple[subprocess.Popen, pathlib.Path]:
        process = subprocess.Popen([TOOL, "--daso", daso, "--cells", "slow", "--candidates",
                                    "none", "--alternations", "1", "--nodes", "2"],
                                   stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process, pathlib.Path(f"/run/daso-cluster/step{process.pid}")

    def test_its_cluster_is_there_for_the_run_and_gone_afterwards(self):
        process, cluster = self.start(self.stand_in(ANSWER))
        _, error = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 0, error)
        self.assertIn(f"--cluster {cluster.name}", (self.folder / "calls").read_text())
        self.assertFalse(cluster.exists())

    def test_an_interrupt_removes_the_cluster(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process, cluster = self.start(self.stand_in(HANG))
            running = self.folder / "pid"
            deadline = time.monotonic() + LIMIT
            while not (running.exists() and running.read_text().endswith("\n")):
                self.assertLess(time.monotonic(), deadline, "no run began")
                time.sleep(0.02)
            self.assertTrue(cluster.exists())
            process.send_signal(number)
            process.communicate(timeout=LIMIT)
            self.assertEqual(process.returncode, 130)
            self.assertFalse(cluster.exists())
            self.assertFalse(pathlib.Path(f"/proc/{running.read_text().strip()}").exists())
            running.unlink()


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
