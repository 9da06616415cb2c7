# SPDX-License-Identifier: Apache-2.0
"""Optimizers that evaluate the loss by themselves, on real ranks: torch.optim.LBFGS.

Run as: closure_test.py DASO PYTHON FOLDER_OF_THE_PACKAGE
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

DASO, PYTHON, PACKAGE = sys.argv[1:4]
JOB = str(pathlib.Path(__file__).parent / "closure_job.py")
ENVIRONMENT = {**os.environ, "PYTHONPATH": PACKAGE, "DASO_PROGRAM": DASO, "OMP_NUM_THREADS": "1"}
CYCLING = ("schedule=fixed", "skip=3", "wait=2", "warmup_epochs=1", "cooldown_epochs=1")


def on(nodes: int, ranks: int) -> list[str]:
    return [DASO, "run", "--nodes", str(nodes), "--ranks-per-node", str(ranks), "--"]


class Closure(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.out = self.folder.name + "/run"

    def job(self, name: str, *flags: str, ranks=(), code: int = 0) -> subprocess.CompletedProcess:
        words = [*ranks, PYTHON, JOB, name, self.out, *flags]
        done = subprocess.run(words, text=True, capture_output=True, timeout=120, env=ENVIRONMENT)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def test_alone_it_has_the_bits_of_pytorch(self):
        self.assertIn("same", self.job("alone").stdout)

    def test_ranks_in_step_are_one_process_with_all_examples(self):
        for nodes, ranks in ((2, 2), (1, 2)):
            with self.subTest(nodes=nodes, ranks=ranks):
                self.out = f"{self.folder.name}/{nodes}{ranks}"
                done = self.job("together", "strategy=sync", "tolerance=1e-4", ranks=on(nodes, ranks))
                self.assertEqual(done.stdout, "same\n")

    def test_nodes_that_meet_now_and_then_learn_the_same(self):
        said = self.job("learns", ranks=on(2, 2)).stdout
        self.assertRegex(said, "node: .* 0 exchanges\n")
        self.assertRegex(said, "local: .* 12 exchanges\n")
        self.assertRegex(said, "daso: .* 12 exchanges\n")

    def test_goes_on_with_the_same_bits(self):
        """From checkpoints with an exchange in flight, and when nodes have agreed."""
        folder = pathlib.Path(self.folder.name)
        for strategy, flags, steps in (("sync", (), [8]), ("daso", CYCLING, [8, 12])):
            self.out = whole = str(folder / strategy)
            self.job("ends_with", f"strategy={strategy}", *flags, ranks=on(2, 1))
            for step in steps:
                with self.subTest(strategy, step=step):
                    self.out = str(folder / f"{strategy}{step}")
                    place = f"resume={whole}/checkpoints/step-{step:09}"
                    self.job("ends_with", f"strategy={strategy}", *flags, place, ranks=on(2, 1))
                    found, expected = (
                        (folder / one / "model.safetensors").read_bytes() for one in (self.out, whole)
                    )
                    self.assertEqual(found, expected)

    def test_a_function_is_the_loss_for_other_optimizers(self):
        for strategy in ("sync", "daso"):
            self.out = f"{self.folder.name}/{strategy}"
            self.assertIn("same", self.job("plain_closure", f"strategy={strategy}", ranks=on(2, 1)).stdout)

    def test_ranks_that_do_not_decide_alike_end_at_once(self):
        cases = {
            "max_iter:2": "is done with it",
            "history_size:1": "with other parameters than rank 0",
        }
        for rank1, said in cases.items():
            with self.subTest(rank1):
                self.out = f"{self.folder.name}/{rank1[:2]}"
                words = (f"rank1={rank1}", "strategy=sync")
                done = self.job("drift", *words, ranks=on(2, 1), code=1)
                self.assertIn(said, done.stderr)
                self.assertIn("the same gradients and losses", done.stderr)

    def test_refuses_what_does_not_fit(self):
        said = self.job("refusals").stdout
        for text in (
            "scaler: a GradScaler skips steps",
            "accumulate: gradients of several calls cannot accumulate",
            "loss: LBFGS evaluates the loss several times in a step: give run.step() a function",
            "calls: LBFGS evaluates the loss several times in a step: give run.step() a function",
            "nothing: the function given to run.step() returns the loss of the batch, one number, "
            "the mean over its examples; this one has returned None",
            "numbers: the function given to run.step() returns the loss of the batch, one number, "
            "the mean over its examples; this one has returned 3 numbers",
            "deaf: the optimizer did not call the function",
            "driven: LBFGS evaluates the loss several times in a step, which a trainer",
        ):
            self.assertIn(text, said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
