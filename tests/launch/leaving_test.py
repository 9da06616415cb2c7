# SPDX-License-Identifier: Apache-2.0
"""`daso train --on-failure continue`: launchers are told to stop by signals, one of them or all.

Run as: leaving_test.py DASO
"""
import json
import os
import signal
import subprocess
import sys
import unittest

from surviving_run import ENDLESS, EPOCHS, LIMIT, STOPPED, SurvivingRun, await_that, processes_of, rank_of


class Leaving(SurvivingRun):
    def start_launchers(self, nodes: int, *more: str, epochs: int = ENDLESS) -> list[subprocess.Popen]:
        self.flags, self.places = self.launchers(nodes)
        runs = [self.start(*self.flags, str(node), "--rendezvous", self.places, *more, nodes=nodes,
                           epochs=epochs) for node in range(nodes)]
        self.await_training()
        return runs

    def assert_stopped(self, runs: list[subprocess.Popen]) -> None:
        for run in runs:
            self.assertEqual(STOPPED, self.end_of(run), self.text())

    def checkpoint(self) -> dict:
        """The manifest of the only one."""
        manifest, = self.out.glob("checkpoints/*/manifest.json")
        return json.loads(manifest.read_text())

    def assert_leaves(self, node: int, *more: str, number: int = signal.SIGTERM) -> None:
        runs = self.start_launchers(3, *more)
        runs[node].send_signal(number)
        self.assert_stopped([runs[node]])
        self.assertIn(f"node{node} has left the run", self.text())
        await_that(lambda: f"2 of 3 nodes (node {node} left)" in self.text(), "a view without it")
        others = [run for run in runs if run is not runs[node]]
        self.assertEqual([None, None], [run.poll() for run in others], self.text())
        # They were left without anything that is not theirs: nobody was lost.
        self.assertNotIn("lost", self.text())
        back = self.start(*self.flags, str(node), "--join", self.places, *more, nodes=3, epochs=ENDLESS)
        await_that(lambda: f"3 of 3 nodes (node {node} joined)" in self.text(), "its return")
        for run in (*others, back):
            run.send_signal(signal.SIGTERM)
        self.assert_stopped([*others, back])
        self.assertEqual([1, 1, 1], self.checkpoint()["nodes"])

    def test_one_leaves_and_comes_back(self):
        self.assert_leaves(1)

    def test_the_first_leaves_in_a_blocking_strategy(self):
        self.assert_leaves(0, "--strategy", "sync", number=signal.SIGUSR1)

    def test_the_one_that_stays_finishes_the_run(self):
        runs = self.start_launchers(2, epochs=EPOCHS)
        runs[0].send_signal(signal.SIGTERM)
        self.assert_stopped(runs[:1])
        self.assert_finished(runs[1])
        self.assertIn("1 of 2 nodes (node 0 left)", self.text())

    def test_all_stop_together_and_go_on(self):
        runs = self.start_launchers(2)
        for run in runs:
            run.send_signal(signal.SIGTERM)
        self.assert_stopped(runs)
        self.assertNotIn("has left", self.text())
        before = self.checkpoint()
        self.assertEqual([1, 1], before["nodes"])
        epochs = before["epoch"] + 10
        runs = [self.start(*self.flags, str(node), "--rendezvous", self.places, "--resume",
                           epochs=epochs) for node in range(2)]
        for run in runs:
            self.assert_finished(run)
        self.assertIn(f"going on with step {before['step']}, epoch {before['epoch'] + 1}", self.text())

    def test_the_last_one_saves(self):
        runs = self.start_launchers(2)
        runs[1].send_signal(signal.SIGTERM)
        self.assert_stopped(runs[1:])
        runs[0].send_signal(signal.SIGTERM)
        self.assert_stopped(runs[:1])
        self.assertEqual([1], self.checkpoint()["nodes"])

    def test_a_second_signal_ends_a_node_and_the_others_notice_at_once(self):
        # Silence would take longer than the test.
        runs = self.start_launchers(3, "--silence", str(2 * LIMIT))
        rank, = (pid for pid in processes_of(self.out) if rank_of(pid) == 2)
        os.kill(rank, signal.SIGSTOP)  # so that it cannot leave
        runs[2].send_signal(signal.SIGTERM)
        with self.assertRaises(subprocess.TimeoutExpired):
            runs[2].wait(1.5)  # for a second it would be the same signal
        runs[2].send_signal(signal.SIGTERM)
        self.assertEqual(128 + signal.SIGTERM, self.end_of(runs[2]), self.text())
        await_that(lambda: "2 of 3 nodes (node 2 left)" in self.text(), "a view without it")

    def test_a_launcher_that_has_all_nodes_stops_the_run(self):
        run = self.start(epochs=ENDLESS)
        self.await_training()
        run.send_signal(signal.SIGTERM)
        self.assert_stopped([run])
        self.assertEqual([1, 1], self.checkpoint()["nodes"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
