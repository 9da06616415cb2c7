# SPDX-License-Identifier: Apache-2.0
"""`daso train --on-failure continue`: ranks are killed, and the run goes on.

Run as: survival_test.py DASO
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import unittest

from surviving_run import (ACCURACY, DASO, ENDLESS, EPOCHS, LIMIT, PEER_LOST, STOPPED, SurvivingRun, await_that,
                           processes_of, rank_of)

REFUSED = 2


class Survival(SurvivingRun):
    def assert_comes_back(self, strategy: str, rank: int, epochs: int = EPOCHS) -> None:
        run = self.start("--strategy", strategy, epochs=epochs)
        self.await_training()
        self.kill(rank)
        self.assert_finished(run)
        self.assertIn(f"node{rank} is lost, the others go on", self.text())
        self.assertIn(f"2 of 2 nodes (node {rank} joined)", self.text())

    def test_a_node_that_loses_its_rank_comes_back(self):
        self.assert_comes_back("daso", 1)

    def test_the_first_node_is_no_other_than_the_rest(self):
        self.assert_comes_back("sync", 0, epochs=2 * EPOCHS)

    def test_strategies_that_average_now_and_then_go_on(self):
        self.assert_comes_back("local", 1)

    def test_nodes_that_do_not_talk_to_each_other_let_one_in_as_well(self):
        run = self.start("--strategy", "node", nodes=3, epochs=ENDLESS)
        self.await_training()
        self.kill(1)
        await_that(lambda: "3 of 3 nodes (node 1 joined)" in self.text(), "its return")
        self.assertIsNone(run.poll())

    def replay(self, *flags: str) -> subprocess.CompletedProcess:
        shutil.rmtree(self.folder / "again", ignore_errors=True)
        return subprocess.run([DASO, "train", "--replay", str(self.out), "--out",
                               str(self.folder / "again"), "--timeout", str(5 * LIMIT), *flags],
                              capture_output=True, text=True, timeout=LIMIT)

    def test_a_replay_without_faults_ends_with_the_same_bytes(self):
        for strategy in ("daso", "sync", "local"):
            with self.subTest(strategy):
                shutil.rmtree(self.out, ignore_errors=True)
                self.said.write_text("")
                run = self.start("--strategy", strategy, nodes=3)
                self.await_training()
                self.kill(0)
                await_that(lambda: "node 0 joined" in self.text(), "its return")
                self.kill(2)
                self.assert_finished(run)
                again = self.replay()
                self.assertEqual(0, again.returncode, again.stderr)
                self.assertIn(f"the same bytes as {self.out}", again.stdout)
                self.assert_notices_another_past(strategy)

    def test_a_joiner_has_most_of_the_run_before_it_enters(self):
        run = self.start("--skip", "4", "--wait", "1", "--warmup-epochs", "0", "--cooldown-epochs",
                         "0", "--optimizer", "adamw", "--lr", "0.001", nodes=3, ranks=2, batch=1,
                         epochs=ENDLESS)
        self.await_training()
        copied = []
        for _ in range(10):  # an epoch that ends meanwhile makes a copy useless
            before = self.text().count("node 1 joined")
            self.kill(2)
            await_that(lambda: self.text().count("node 1 joined") > before, "its return")
            lines = (self.out / "membership.jsonl").read_text().splitlines()
            copied = [line for line in map(json.loads, lines) if line.get("copied")]
            if copied:
                break
        self.assertEqual([[1]], [[node for node, _ in one["copied"]] for one in copied])
        self.assertNotEqual(1, copied[0]["donor"])
        run.send_signal(signal.SIGTERM)
        self.assertEqual(STOPPED, self.end_of(run), self.text())
        again = self.replay()
        self.assertEqual(0, again.returncode, again.stderr)
        self.assertIn(f"the same bytes as {self.out}", again.stdout)

    def assert_notices_another_past(self, strategy: str) -> None:
        # The survivor of node 2's loss is said to have trained one step more.
        file = self.out / "membership.jsonl"
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        view = [line for line in lines if 0 in line.get("joined", [])][0]
        for place in view["places"]:
            if place:
                place["batch"] += 1
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        again = self.replay()
        self.assertEqual(1, again.returncode, f"{strategy}: {again.stdout}{again.stderr}")
        self.assertRegex(again.stderr, r"the replay (of .* ended otherwise|left view)")

    def test_a_replay_of_another_kind_of_run_is_refused(self):
        self.out.mkdir()
        again = self.replay()
        self.assertEqual(REFUSED, again.returncode, again.stdout)
        self.assertIn("is not the folder of a run: it has no config.toml", again.stderr)
        again = self.replay("--backend", "gloo")
        self.assertEqual(REFUSED, again.returncode, again.stdout)

    def test_the_others_go_on_without_a_node_that_is_not_started_again(self):
        run = self.start("--restarts", "0", epochs=50)
        self.await_training()
        self.kill(1)
        self.assert_finished(run)
        self.assertIn("node1 is not started again", self.text())
        self.assertNotIn("joined", self.text())

    def test_the_first_rank_that_is_left_prints_the_result(self):
        run = self.start("--restarts", "0", epochs=50)
        self.await_training()
        self.kill(0)
        self.assert_finished(run)
        again = self.replay("--json")
        self.assertEqual(0, again.returncode, again.stderr)
        self.assertGreater(json.loads(again.stdout)["test_accuracy"], ACCURACY)

    def test_a_stopped_rank_is_lost_after_a_while(self):
        run = self.start("--silence", "2", epochs=ENDLESS)
        self.await_training()
        doomed, = (pid for pid in processes_of(self.out) if rank_of(pid) == 1)
        os.kill(doomed, signal.SIGSTOP)
        await_that(lambda: "node1 is ended: its rank 0 has said nothing for" in self.text(),
                   "the loss of a stopped rank")
        await_that(lambda: "2 of 2 nodes (node 1 joined)" in self.text(), "its return")
        self.assertIsNone(run.poll())

    def test_the_job_ends_when_all_nodes_are_lost(self):
        run = self.start(epochs=ENDLESS)
        self.await_training()
        self.kill(0, 1)
        self.assertEqual(PEER_LOST, run.wait(LIMIT), self.text())
        self.assertIn("no node is left that has the run", self.text())

    def test_a_machine_that_is_lost_is_missed_by_none_and_joins_again(self):
        flags, places = self.launchers(3)
        runs = [self.start(*flags, str(node), "--rendezvous", places, nodes=3, epochs=400)
                for node in range(3)]
        self.await_training()
        # With the first node goes whoever has begun the run.
        runs[0].send_signal(signal.SIGKILL)
        await_that(lambda: "2 of 3 nodes (node 0 lost)" in self.text(), "a view without it")
        back = self.start(*flags, "0", "--join", places, nodes=3, epochs=400)
        for run in (back, *runs[1:]):
            self.assertEqual(0, run.wait(LIMIT), self.text())
        self.assertIn("3 of 3 nodes (node 0 joined)", self.text())

    def test_a_launcher_that_does_not_come_is_named(self):
        flags, places = self.launchers(2)
        run = self.start(*flags, "0", "--rendezvous", places, "--join-timeout", "3")
        self.assertEqual(PEER_LOST, run.wait(LIMIT), self.text())
        self.assertRegex(self.text(), r"node1 \(127.0.0.1:\d+: Connection refused\)")

    def test_a_program_that_joins_one_world_is_told_so(self):
        done = subprocess.run([DASO, "run", "--nodes", "2", "--backend", "tcp", "--on-failure",
                               "continue", "--", DASO, "bench", "comm", "--backend", "tcp"],
                              capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(REFUSED, done.returncode, done.stderr)
        self.assertIn("it joins one world for good", done.stderr)

    def test_other_backends_are_refused(self):
        for backend in ("gloo", "mpi"):
            with self.subTest(backend):
                self.assertEqual(REFUSED, self.start(backend=backend).wait(LIMIT), self.text())
                self.assertIn("--on-failure continue needs --backend tcp", self.text())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
