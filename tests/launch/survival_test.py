# SPDX-License-Identifier: Apache-2.0
"""`daso train --on-failure continue`: ranks are killed, and the run goes on.

Run as: survival_test.py DASO
"""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "run"))
from kill_run import kill_run, processes_of

DASO = sys.argv[1]
LIMIT = 60  # seconds
REFUSED, PEER_LOST = 2, 3
EPOCHS = 150  # as many as a node needs to come back before the run is over
ENDLESS = 100000
ACCURACY = 0.975  # this run without faults has 0.985, with whichever strategy


def await_that(holds, what: str) -> None:
    deadline = time.monotonic() + LIMIT
    while not holds():
        assert time.monotonic() < deadline, f"not within {LIMIT} s: {what}"
        time.sleep(0.02)  # others need the cores


def rank_of(pid: int) -> int | None:
    """Of a process of the run; none: it is not a rank."""
    try:
        environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None  # it has ended
    ranks = [text[5:] for text in environment if text.startswith(b"RANK=")]
    of_launcher = any(text.startswith(b"DASO_LAUNCHER_LINE=") for text in environment)
    return int(ranks[0]) if ranks and of_launcher else None


class Survival(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="daso-survival-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.out = self.folder / "run"
        self.said = self.folder / "said"

    def start(self, *flags: str, epochs: int = EPOCHS, backend: str = "tcp",
              nodes: int = 2) -> subprocess.Popen:
        with self.said.open("ab") as said:
            run = subprocess.Popen(
                [DASO, "train", "--data", f"idx:{ROOT / 'tests' / 'digits'}", "--model", "mlp",
                 "--batch-size", "16", "--epochs", str(epochs), "--nodes", str(nodes),
                 "--ranks-per-node", "1", "--backend", backend, "--on-failure", "continue",
                 "--timeout", "20", "--out", str(self.out), *flags],
                stdout=said, stderr=subprocess.STDOUT)
        self.addCleanup(run.wait)
        self.addCleanup(kill_run, self.out)
        return run

    def text(self) -> str:
        return self.said.read_text(errors="replace")

    def await_training(self) -> None:
        await_that(lambda: re.search(r"^epoch +\d+ of ", self.text(), re.M), "the first epoch")

    def kill(self, *ranks: int) -> None:
        # Before any is killed: its launcher ends the others of its node.
        doomed = [pid for pid in processes_of(self.out) if rank_of(pid) in ranks]
        self.assertEqual(len(ranks), len(doomed), self.text())
        for pid in doomed:
            os.kill(pid, signal.SIGKILL)

    def assert_finished(self, run: subprocess.Popen) -> None:
        self.assertEqual(0, run.wait(LIMIT), self.text())
        accuracy = re.findall(r"accuracy ([0-9.]+), top-5 .* after \d+ steps", self.text())
        self.assertTrue(accuracy, self.text())
        self.assertGreater(float(accuracy[-1]), ACCURACY)

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
                               str(self.folder / "again"), "--timeout", "20", *flags],
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

    def assert_notices_another_past(self, strategy: str) -> None:
        # The survivor of node 2's loss is said to have trained one step more.
        file = self.out / "membership.jsonl"
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        view = [line for line in lines if 0 in line.get("joined", [])][0]
        for left in view["left"]:
            if left:
                left["batch"] += 1
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

    def launchers(self, nodes: int) -> tuple[list[str], str]:
        """The flags of each launcher of a job, and where they listen."""
        ports = [socket.create_server(("127.0.0.1", 0)) for _ in range(nodes)]
        places = ",".join(f"127.0.0.1:{one.getsockname()[1]}" for one in ports)
        for one in ports:
            one.close()
        (self.folder / "token").write_text("secret\n")
        return ["--job-token-file", str(self.folder / "token"), "--node-index"], places

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

    def test_other_backends_are_refused(self):
        for backend in ("gloo", "mpi"):
            with self.subTest(backend):
                self.assertEqual(REFUSED, self.start(backend=backend).wait(LIMIT), self.text())
                self.assertIn("--on-failure continue needs --backend tcp", self.text())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
