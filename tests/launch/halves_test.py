# SPDX-License-Identifier: Apache-2.0
"""`daso train --on-failure continue` with fewer nodes than it began with: who may go on, who saves
and stops, and who takes a seat that has become free.

Run as: halves_test.py DASO
"""
import re
import signal
import subprocess
import sys
import unittest

from surviving_run import (DASO, ENDLESS, EPOCHS, LIMIT, PEER_LOST, SurvivingRun, await_that,
                           processes_of, rank_of)

REFUSED = 2


class Halves(SurvivingRun):
    def start_launchers(self, nodes: int, *more: str, epochs: int = ENDLESS) -> list[subprocess.Popen]:
        self.flags, self.places = self.launchers(nodes)
        runs = [self.start(*self.flags, str(node), "--rendezvous", self.places, *more, nodes=nodes,
                           epochs=epochs) for node in range(nodes)]
        self.await_training()
        return runs

    def lose_launchers(self, *runs: subprocess.Popen) -> None:
        for run in runs:
            run.send_signal(signal.SIGKILL)
        for run in runs:
            run.wait(LIMIT)

    def start_witness(self) -> tuple[subprocess.Popen, str]:
        (self.folder / "token").write_text("secret\n")
        words = [DASO, "witness", "--listen", "127.0.0.1:0", "--job-token-file",
                 str(self.folder / "token"), "--file", str(self.folder / "claims")]
        witness = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        self.addCleanup(witness.stderr.close)
        self.addCleanup(witness.wait)
        self.addCleanup(witness.kill)
        found = re.search(r"a witness listens at (\S+);", witness.stderr.readline())
        return witness, found[1]

    def saved_apart(self, node: int):
        folder, = (self.out / f"cut-off-node{node}").iterdir()
        self.assertTrue((folder / "manifest.json").exists(), list(folder.iterdir()))
        return folder

    def test_one_of_two_goes_on_where_both_see_the_folder(self):
        runs = self.start_launchers(2, epochs=EPOCHS)
        self.lose_launchers(runs[1])
        self.assert_finished(runs[0])
        self.assertIn("1 of 2 nodes (node 1 lost)", self.text())

    def test_a_witness_says_which_of_two_goes_on(self):
        witness, place = self.start_witness()
        runs = self.start_launchers(2, "--witness", place, epochs=EPOCHS)
        self.lose_launchers(runs[0])
        self.assert_finished(runs[1])
        self.assertRegex((self.folder / "claims").read_text(), r"^1-[0-9a-f]{16} 1\.\d+\n$")
        witness.send_signal(signal.SIGTERM)
        self.assertEqual(0, witness.wait(LIMIT))

    def test_without_its_witness_neither_half_goes_on(self):
        witness, place = self.start_witness()
        runs = self.start_launchers(2, "--witness", place)
        witness.kill()
        self.lose_launchers(runs[1])
        self.assertEqual(PEER_LOST, self.end_of(runs[0]), self.text())
        self.assertIn(f"nobody says which half of view 1 goes on: the witness at {place}: ", self.text())
        self.saved_apart(0)

    def test_a_minority_saves_what_it_has_beside_the_run(self):
        # One after the other they might leave a half, which nobody grants.
        # Nearly always an exchange that has been committed is in flight.
        runs = self.start_launchers(3, "--witness", "127.0.0.1:9", "--warmup-epochs", "0",
                                    "--schedule", "fixed", "--skip", "20", "--wait", "20")
        self.lose_launchers(*runs[1:])
        self.assertEqual(PEER_LOST, self.end_of(runs[0]), self.text())
        self.assertIn("node0 has lost the majority of the others, and ends", self.text())
        saved = self.saved_apart(0)
        self.assertIn(f"--resume {saved} goes on from there", self.text())
        self.assertEqual([], list((self.out / "checkpoints").glob("*/manifest.json")))
        # All nodes go on with what this one had.
        again = subprocess.run([DASO, "train", "--resume", str(saved), "--nodes", "3", "--out",
                                str(self.folder / "again"), "--max-steps", str(int(saved.name.split("-")[1]) + 1)],
                               capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(0, again.returncode, again.stderr)
        self.assertIn("going on with step", again.stdout)

    def test_too_few_nodes_save_and_stop(self):
        run = self.start("--min-nodes", "2", epochs=ENDLESS)
        self.await_training()
        self.kill(1)
        self.assertEqual(PEER_LOST, self.end_of(run), self.text())
        self.assertIn("1 of the 2 nodes that --min-nodes asks for are left", self.text())
        manifest, = self.out.glob("checkpoints/*/manifest.json")
        self.assertIn('"nodes": [\n    1\n  ]', manifest.read_text())

    def test_a_node_that_stands_by_takes_a_free_seat(self):
        run = self.start("--standby", "1", "--restarts", "0", nodes=3)
        self.await_training()
        self.assertEqual(3, len([pid for pid in processes_of(self.out) if rank_of(pid) is not None]))
        self.kill(1)
        self.assert_finished(run)
        self.assertIn("2 of 3 nodes (node 2 joined)", self.text())

    def test_one_that_comes_back_finds_its_seat_taken_and_waits(self):
        runs = self.start_launchers(3, "--standby", "1")
        self.lose_launchers(runs[0])
        await_that(lambda: "node 2 joined)" in self.text(), "a node that stood by")
        # Long enough for a limit to pass: it waits beyond it.
        back = self.start(*self.flags, "0", "--join", self.places, "--standby", "1",
                          "--join-timeout", "1", nodes=3, epochs=ENDLESS)
        await_that(lambda: 0 in map(rank_of, processes_of(self.out)), "its rank")
        with self.assertRaises(subprocess.TimeoutExpired):
            back.wait(4)
        self.lose_launchers(runs[1])
        await_that(lambda: "node 0 joined)" in self.text(), "its return")
        self.assertEqual([None, None], [back.poll(), runs[2].poll()], self.text())

    def test_launchers_without_a_common_folder_are_refused(self):
        flags, places = self.launchers(2)
        run = subprocess.run([DASO, "train", "--nodes", "2", "--backend", "tcp", "--on-failure",
                              "continue", *flags, "0", "--rendezvous", places],
                             capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(REFUSED, run.returncode)
        self.assertIn("need --out, the same folder for all of them", run.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
