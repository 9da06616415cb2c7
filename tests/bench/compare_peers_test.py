# SPDX-License-Identifier: Apache-2.0
"""bench/compare_peers: with a stand-in for daso, with real ranks, and on a cluster (needs root).

Run as: compare_peers_test.py DASO PYTHON_WITH_TORCH CLASS...
"""
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

DASO, PYTHON = sys.argv[1:3]
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TOOL = str(ROOT / "bench" / "compare_peers")
LIMIT = 100  # seconds, of everything that should take much less
# Says what it was called with, and what a run would: seconds that grow from call to call.
ANSWER = """#!/bin/sh
[ "$1" = --version ] && exec echo daso 0
echo "$@" >> "{folder}/calls"
calls=$(wc -l < "{folder}/calls")
echo '{{"seconds_per_step": '"$calls"', "wait_seconds": 0.5, "cpu_seconds": '"$calls"',
        "bytes_between_nodes": 1000}}'
"""
FAIL = """#!/bin/sh
echo the reason >&2
exit 3
"""
HANG = """#!/bin/sh
echo $$ > "{folder}/pid"
exec sleep 1000
"""


class CompareCase(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.results = self.folder / "results.json"
        self.words = ["--results", str(self.results), "--python", PYTHON]

    def stand_in(self, text: str) -> str:
        program = self.folder / "daso"
        program.write_text(text.format(folder=self.folder))
        program.chmod(0o755)
        return str(program)

    def calls(self) -> list[list[str]]:
        return [line.split() for line in (self.folder / "calls").read_text().splitlines()]

    def call(self, *words: str, expect: int = 0) -> tuple[str, str]:
        done = subprocess.run([TOOL, *self.words, *words], text=True, capture_output=True,
                              timeout=LIMIT)
        self.assertEqual(done.returncode, expect, done.stderr)
        return done.stdout, done.stderr


class WithStandIn(CompareCase):
    def test_an_exchange_costs_what_daso_takes_more_than_node(self):
        shown, _ = self.call("--daso", self.stand_in(ANSWER), "--parts", "scaling")
        point = json.loads(self.results.read_text())["scaling"]["points"][0]
        # One call takes a second more than the one before it; 4 steps make an exchange.
        self.assertEqual(point["exchange_cpu"], [4, 4, 4])
        self.assertEqual(point["exchange_bytes"], 4000)
        self.assertIn("cost of an exchange", shown)

    def test_parts_are_kept_one_by_one(self):
        self.results.write_text('{"base": {"kept": true}}')
        self.call("--daso", self.stand_in(ANSWER), "--parts", "scaling")
        found = json.loads(self.results.read_text())
        self.assertEqual(found["base"], {"kept": True})
        self.assertIn("made", found["scaling"])

    def test_a_failed_run_ends_it(self):
        words = ["--parts", "scaling"]
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
        for words, reason in ((["--parts", "base,bas"], "takes some of"),
                              (["--parts", "scaling,scaling"], "each once"),
                              (["--rounds", "0"], "at least 1"),
                              (["--candidates", "none,nod"], "takes some of"),
                              (["--parts", "scaling", "--write", "--rounds", "1"], "whole parts"),
                              (["--parts", "scaling", "--write", "--seeds", "4"], "at least 5"),
                              (["--parts", "scaling", "--results", "/no/such/file"], "no folder"),
                              (["--parts", "scaling", "--python", "/no/such"], "no program")):
            _, error = self.call("--daso", daso, *words, expect=2)
            self.assertIn(reason, error)
        self.assertFalse((self.folder / "calls").exists())

    def test_peers_need_a_python_with_pytorch(self):
        words = ["--daso", self.stand_in(FAIL), "--python", self.stand_in(FAIL), "--parts"]
        for parts in (["base", "--candidates", "node,ddp"], ["base", "--candidates", "post-local"],
                      ["accuracy"]):
            _, error = self.call(*words, *parts, expect=2)
            self.assertIn("has no PyTorch", error)
        # Ours alone do not: this fails only when it runs.
        self.call(*words, "scaling", expect=1)

    def test_the_list_names_all_parts(self):
        shown, _ = self.call("--list")
        self.assertEqual(len(shown.splitlines()), 15)


class OnCluster(CompareCase):
    def start(self, daso: str) -> tuple[subprocess.Popen, pathlib.Path]:
        process = subprocess.Popen([TOOL, *self.words, "--daso", daso, "--parts", "nodes-2",
                                    "--candidates", "none", "--rounds", "1"],
                                   stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process, pathlib.Path(f"/run/daso-cluster/peers{process.pid}")

    def test_candidates_take_turns_and_medians_count(self):
        shown, _ = self.call("--daso", self.stand_in(ANSWER), "--parts", "nodes-2",
                             "--candidates", "none,daso,ddp", "--rounds", "3")
        names = [words[words.index("--strategy") + 1] if words[0] == "bench" else words[0]
                 for words in self.calls()]
        self.assertEqual(names, ["none", "daso", "run", "daso", "run", "none", "run", "none",
                                 "daso"])
        cell = json.loads(self.results.read_text())["nodes-2"]
        # The stand-in's seconds are the number of the call, counted from 1.
        self.assertEqual([(one["candidate"], one["seconds"]) for one in cell["results"]],
                         [("none", [1, 6, 8]), ("daso", [2, 4, 9]), ("ddp", [3, 5, 7])])
        rows = {line.split()[0]: line.split() for line in shown.splitlines() if line}
        self.assertEqual(rows["none"][1], "6.0000")
        self.assertEqual(rows["daso"][1:6], ["4.0000", "2.0000", "…", "9.0000", "0.667"])

    def test_peers_and_strategies_do_the_same_work(self):
        self.call("--daso", self.stand_in(ANSWER), "--parts", "noise", "--candidates",
                  "sync,ddp,ddp-1mb,ddp-bf16", "--rounds", "1")
        calls = [" ".join(words) for words in self.calls()]
        for call in calls:
            for words in ("--nodes 4 --ranks-per-node 2", "--layers 20 --parameters 2560000",
                          "--forward-ms 80 --backward-ms 160 --steps 24 --warmup-steps 4",
                          "--noise 0.2 --stall-chance 0 --stall-ms 500 --seed 1"):
                self.assertIn(words, call)
        self.assertIn("--skip 1 --wait 1 --exchange sharded --wire int8 --json", calls[0])
        self.assertIn("--hook none --bucket-mb 25 ", calls[1])
        self.assertIn("--hook none --bucket-mb 1 ", calls[2])
        self.assertIn("--hook bf16 --bucket-mb 1 ", calls[3])

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

    def test_real_ranks_of_ours_and_of_ddp(self):
        self.call("--daso", DASO, "--parts", "nodes-2", "--candidates", "node,daso,ddp-1mb",
                  "--rounds", "1")
        found = {one["candidate"]: one
                 for one in json.loads(self.results.read_text())["nodes-2"]["results"]}
        for one in found.values():
            self.assertGreaterEqual(one["seconds"][0], 0.24)
        self.assertEqual(found["node"]["bytes_between_nodes"], 0)
        self.assertGreater(found["daso"]["bytes_between_nodes"], 0)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
