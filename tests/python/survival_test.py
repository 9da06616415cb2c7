# SPDX-License-Identifier: Apache-2.0
"""daso.Run under `daso run --on-failure continue`: ranks are killed, and the run goes on.

Run as: survival_test.py DASO PYTHON FOLDER_OF_THE_PACKAGE
"""

import collections
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
DASO, PYTHON, PACKAGE = sys.argv[1:4]
HERE = pathlib.Path(__file__).parent
JOB = str(HERE / "surviving_job.py")
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": PACKAGE,
    "PYTHONDONTWRITEBYTECODE": "1",
    "DASO_PROGRAM": DASO,
    "OMP_NUM_THREADS": "1",
}
LIMIT = 240  # seconds, far above what any of it takes
EXAMPLES, BATCH = 768, 8


class Survival(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="daso-python-survival-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.out = self.folder / "run"

    def launch(self, name: str, *flags: str, shape=(3, 1), run=(), code: int = 0, out=None):
        nodes, ranks = shape
        words = [DASO, "run", "--nodes", str(nodes), "--ranks-per-node", str(ranks)]
        words += run or ["--backend", "tcp", "--on-failure", "continue"]
        words += ["--", PYTHON, JOB, name, str(out or self.out), f"nodes={nodes}", *flags]
        if name in ("collectives", "fails", "plain"):
            words.remove(f"nodes={nodes}")
        done = subprocess.run(words, text=True, capture_output=True, timeout=LIMIT, env=ENVIRONMENT)
        said = done.stdout + done.stderr
        self.assertEqual(done.returncode, code, said)
        return said

    def views(self) -> list[dict]:
        lines = (self.out / "membership.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines if "joined" in line]

    def assert_came_back(self, node: int, nodes: int) -> None:
        views = self.views()
        gone = [number for number, view in enumerate(views) if node not in view["nodes"]]
        self.assertTrue(gone, views)
        back = [view for view in views[gone[0] :] if node in view.get("joined", [])]
        self.assertTrue(back, views)
        self.assertEqual(len(views[-1]["nodes"]), nodes, views)

    def assert_replayed(self, *flags: str, shape=(3, 1)) -> None:
        """A replay without faults ends with the same bytes."""
        again = self.folder / "again"
        said = self.launch(
            "train", *flags, shape=shape, run=["--replay", str(self.out), "--out", str(again)],
            out=self.folder / "other",
        )
        self.assertIn(f"the same bytes as {self.out}", said)

    def test_a_lost_node_comes_back_and_all_is_as_in_the_replay(self):
        for strategy, shape in (
            ("daso", (3, 1)),
            ("sync", (3, 1)),
            ("local", (3, 1)),
            ("daso", (2, 2)),
            ("sync", (2, 2)),
        ):
            with self.subTest(f"{strategy} {shape}"):
                shutil.rmtree(self.folder)
                self.folder.mkdir()
                lost = shape[0] * shape[1] - 1
                flags = [f"strategy={strategy}", f"kill={lost}@37"]
                said = self.launch("train", *flags, shape=shape)
                self.assertIn("the others go on", said)
                self.assertIn("equal", said)
                self.assert_came_back(shape[0] - 1, shape[0])
                self.assert_replayed(*flags, shape=shape)

    def test_the_first_node_is_no_other_than_the_rest(self):
        flags = ["kill=0@37", "strategy=sync", "way=calls", "kind=scaled"]
        self.assertIn("equal", self.launch("train", *flags))
        self.assert_came_back(0, 3)
        self.assert_replayed(*flags)

    def test_a_step_that_evaluates_the_loss_itself_is_done_again(self):
        flags = ["kill=1@37", "strategy=sync", "kind=lbfgs"]
        self.assertIn("equal", self.launch("train", *flags))
        self.assert_came_back(1, 3)
        self.assert_replayed(*flags)

    def test_parts_of_a_step_come_again_together(self):
        flags = ["kill=1@17", "strategy=sync", "accumulate=2", "loader=shuffle", "epochs=8"]
        self.assertIn("equal", self.launch("train", *flags))
        self.assert_came_back(1, 3)
        self.assert_replayed(*flags)

    def test_who_has_no_seat_of_its_own_takes_one_that_gets_free(self):
        """A node comes back into an epoch that is dealt to two, and then one of these is lost: in a
        step that is done again, with other examples."""
        flags = ["kill=0@30,2@90", "strategy=sync"]
        self.assertIn("equal", self.launch("train", *flags))
        self.assert_replayed(*flags)

    def test_loader_workers_do_not_hold_a_dead_rank(self):
        self.launch("train", "kill=1@37", "loader=workers", "epochs=8")
        self.assert_came_back(1, 3)

    def test_an_epoch_is_dealt_once(self):
        """No example is seen twice by those who had it, and a joiner takes the empty seats."""
        self.launch("train", "kill=1@37", "strategy=sync")
        seen = collections.defaultdict(dict)  # by epoch and batch, by rank
        for file in self.out.glob("seen-*"):
            rank = int(file.name.split("-")[1])
            for line in file.read_text().splitlines():
                epoch, batch, *rows = map(int, line.split())
                earlier = seen[epoch, batch].setdefault(rank, rows)
                self.assertEqual(earlier, rows, "a step that is done again has the same batch")
        lost, returned = (view["epoch"] for view in self.views()[1:])
        for epoch in range(6):
            rows = [
                row
                for (of, _), ranks in seen.items()
                if of == epoch
                for batch in ranks.values()
                for row in batch
            ]
            # Where it is dealt to the others who comes back sees what they see, until its end.
            if epoch != returned or returned == lost:
                self.assertEqual(len(rows), len(set(rows)), f"epoch {epoch} has examples twice")
            if epoch not in (lost, returned):
                self.assertGreaterEqual(len(rows), EXAMPLES - 2 * BATCH, f"epoch {epoch}")

    def test_an_error_of_its_own_ends_the_job(self):
        said = self.launch("fails", code=1)
        self.assertIn("ValueError: out of cheese", said)
        self.assertNotIn("the others go on", said)

    def test_a_checkpoint_goes_on_without_any_of_it(self):
        flags = ["strategy=sync", "checkpoint_every=10steps", "kill=0@47,1@47,2@47"]
        once = ["--backend", "tcp", "--on-failure", "continue", "--restarts", "0"]
        self.launch("train", *flags, run=once, code=3)
        self.assertIn("equal", self.launch("train", *flags, "resume=True", run=["--backend", "tcp"]))

    def test_who_dies_in_the_transfer_is_replaced(self):
        for whom in ("joiner", "donor"):
            with self.subTest(whom):
                shutil.rmtree(self.folder)
                self.folder.mkdir()
                said = self.launch(
                    "transfer", f"whom={whom}", "kill=2@37", "strategy=sync", "epochs=8"
                )
                self.assertTrue((self.out / "once-transfer").exists(), said)
                self.assertIn("equal", said)
                self.assertEqual(len(self.views()[-1]["nodes"]), 3, said)

    def test_a_node_leaves_on_purpose_and_joins_again(self):
        ports = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
        places = ",".join(f"127.0.0.1:{one.getsockname()[1]}" for one in ports)
        for one in ports:
            one.close()
        (self.folder / "token").write_text("secret\n")

        def launcher(node: int, *flags: str) -> subprocess.Popen:
            words = [DASO, "run", "--nodes", "3", "--ranks-per-node", "1"]
            words += ["--backend", "tcp", "--on-failure", "continue", "--node-index", str(node)]
            words += ["--job-token-file", str(self.folder / "token"), *flags, "--", PYTHON, JOB]
            words += ["train", str(self.out), "strategy=sync", "epochs=12", "pause=0.05"]
            with (self.folder / "said").open("ab") as said:
                one = subprocess.Popen(words, stdout=said, stderr=said, env=ENVIRONMENT)
            self.addCleanup(one.wait)
            self.addCleanup(one.kill)
            return one

        launchers = [launcher(node, "--rendezvous", places) for node in range(3)]
        self.await_that(lambda: list(self.out.glob("seen-1-*")), "training")
        launchers[1].send_signal(signal.SIGTERM)
        self.assertEqual(launchers[1].wait(LIMIT), 75, self.text())
        launchers[1] = launcher(1, "--join", places)
        for one in launchers:
            self.assertEqual(one.wait(LIMIT), 0, self.text())
        self.assertIn("equal", self.text())
        self.assert_came_back(1, 3)
        self.assertEqual([view["left"] for view in self.views()], [[], [1], []])

    def text(self) -> str:
        return (self.folder / "said").read_text(errors="replace")

    def await_that(self, holds, what: str) -> None:
        deadline = time.monotonic() + LIMIT
        while not holds():
            self.assertLess(time.monotonic(), deadline, f"not in time: {what}\n{self.text()}")
            time.sleep(0.02)  # others need the cores

    def test_what_ranks_do_together_fails_once_and_works_again(self):
        self.assertIn("together 3.0", self.launch("collectives", "strategy=sync"))

    def test_a_program_that_asks_for_no_views_is_named(self):
        said = self.launch("plain", code=2)
        self.assertIn("has not asked its launcher who else there is", said)
        shutil.rmtree(self.out, ignore_errors=True)  # rank 1 may have been ended before it made it
        flags = ["--backend", "tcp", "--on-failure", "continue", "--timeout", "4"]
        said = self.launch("plain", "waits=1", run=flags, code=2)
        self.assertIn("has not asked its launcher who else there is", said)

    def test_another_backend_is_refused(self):
        script = "import daso; daso.init(backend='gloo')"
        words = [DASO, "run", "--nodes", "2", "--backend", "tcp", "--on-failure", "continue", "--"]
        words += [PYTHON, "-c", script]
        done = subprocess.run(words, text=True, capture_output=True, timeout=LIMIT, env=ENVIRONMENT)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, "ConfigError: backend gloo cannot make connections anew")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
