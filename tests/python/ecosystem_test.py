# SPDX-License-Identifier: Apache-2.0
"""Other packages that train over ours: the real ones, on real ranks, and the examples.

Run as: ecosystem_test.py DASO PYTHON FOLDER_OF_THE_PACKAGE

PYTHON has the packages of ecosystem.txt; where it is not there the Python that runs this is taken.
Where one of them is missing this is skipped.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

DASO, PYTHON, PACKAGE = sys.argv[1:4]
if not os.path.exists(PYTHON):
    PYTHON = sys.executable
HERE = pathlib.Path(__file__).resolve().parent
CHECKOUT = HERE.parents[1]
EXAMPLES = CHECKOUT / "examples" / "python"
JOB = str(HERE / "ecosystem_job.py")
PACKAGES = ("lightning", "transformers", "accelerate", "pandas", "matplotlib", "nbclient", "ipykernel")
SKIPPED = 77

ALONE: list[str] = []
TWO_NODES = [DASO, "run", "--nodes", "2", "--ranks-per-node", "1", "--timeout", "60", "--"]
TORCHRUN = [PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
TORCHRUN += ["--local-addr", "127.0.0.1", "--no-python"]


def call(*words: str, code: int = 0, cwd: str | pathlib.Path | None = None) -> str:
    environment = {
        **os.environ,
        "PYTHONPATH": PACKAGE,
        "DASO_PROGRAM": DASO,
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    environment.pop("MPLBACKEND", None)  # the notebook's plots are its own
    done = subprocess.run(
        words, text=True, capture_output=True, timeout=180, env=environment, cwd=cwd
    )
    said = done.stdout + done.stderr
    assert done.returncode == code, f"exit code {done.returncode} of {words}\n{said}"
    return said


class Ecosystem(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()

    def tearDown(self):
        self.folder.cleanup()

    def another_folder(self) -> str:
        return f"{self.folder.name}/{len(os.listdir(self.folder.name))}"

    # The examples.

    def example(self, name: str, launcher: list[str]) -> list[dict]:
        """The records of its run; a run of two nodes ends with equal models on them."""
        self.out = self.another_folder()
        said = call(*launcher, PYTHON, str(EXAMPLES / name), "--out", self.out, cwd=self.folder.name)
        results = re.findall(r"rank \d.*: \w+ (\d\.\d+)", said)
        self.assertEqual(len(results), 1 if launcher is ALONE else 2, said)
        self.assertEqual(len(set(results)), 1, said)
        out = pathlib.Path(self.out)
        self.assertIn("<html", (out / "report.html").read_text()[:200])
        if launcher is TWO_NODES:
            (last,) = (out / "checkpoints").iterdir()
            nodes = [(last / f"node-{node}.safetensors").read_bytes() for node in (0, 1)]
            self.assertEqual(*nodes)
        records = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        self.assertLess(records[-1]["train_loss"], 0.5 * records[0]["train_loss"])
        return records

    def test_lightning_learns_digits(self):
        self.example("lightning_digits.py", ALONE)
        self.assertGreater(
            self.example("lightning_digits.py", TWO_NODES)[-1]["test_accuracy"], 0.95
        )

    def test_transformers_learns_sentences(self):
        self.example("huggingface_text.py", TORCHRUN)
        self.assertLess(self.example("huggingface_text.py", TWO_NODES)[-1]["test_loss"], 1.2)

    def test_a_plain_loop_is_started_by_torchrun(self):
        self.example("torchrun_plain.py", TWO_NODES)
        self.assertGreater(self.example("torchrun_plain.py", TORCHRUN)[-1]["test_accuracy"], 0.9)

    def test_the_notebook_runs(self):
        text = (
            "import nbclient, nbformat; "
            f"book = nbformat.read({str(EXAMPLES / 'notebook.ipynb')!r}, 4); "
            "assert not any(cell.get('outputs') for cell in book.cells); "
            f"nbclient.NotebookClient(book, timeout=120, "
            f"resources={{'metadata': {{'path': {str(EXAMPLES)!r}}}}}).execute(); "
            "assert not any(one.output_type == 'error' for cell in book.cells "
            "for one in cell.get('outputs', [])); "
            "assert any('image/png' in one.get('data', {}) for one in book.cells[-1].outputs)"
        )
        call(PYTHON, "-c", text)

    # What is promised besides.

    def job(self, name: str, *flags: str, launcher=TWO_NODES, code: int = 0) -> list[dict]:
        """What the ranks tell at their ends, in the order of ranks."""
        self.out = self.another_folder()
        said = call(*launcher, PYTHON, JOB, name, self.out, *flags, code=code)
        told = [json.loads(line) for line in re.findall(r'^(?:\[.*?\] )?(\{"rank.*\})$', said, re.M)]
        return sorted(told, key=lambda one: one["rank"])

    def assert_close(self, found: list[float], expected: list[float]):
        for one, other in zip(found, expected, strict=True):
            self.assertAlmostEqual(one, other, delta=1e-5)

    def check_trainer(self, name: str, checkpoints: str) -> list[dict]:
        """Strategy sync is one process with the whole batch, however it comes together, and a run
        that goes on from a checkpoint of the package has the bits of one that was never left."""
        (alone,) = self.job(name, "batch=16", "strategy=sync", launcher=ALONE)
        for flags in (["batch=4", "parts=2"], ["batch=8"]):
            ranks = self.job(name, *flags, "strategy=sync")
            self.assertEqual(ranks[0]["digest"], ranks[1]["digest"])
            self.assert_close(ranks[0]["values"], alone["values"])
            self.assert_close([one["val_loss"] for one in ranks], [alone["val_loss"]] * 2)
        self.job(name, "batch=8", "strategy=sync", "epochs=2")
        (checkpoint,) = pathlib.Path(self.out).glob(checkpoints)
        resumed = self.job(name, "batch=8", "strategy=sync", f"go_on={checkpoint}")
        self.assertEqual([one["digest"] for one in resumed], [one["digest"] for one in ranks])
        return ranks

    def test_lightning_is_exact(self):
        for rank in self.check_trainer("by_lightning", "checkpoints/*.ckpt"):
            self.assertEqual(rank["gathered"], [0, 1])
            self.assertEqual(rank["word"], 0)
            self.assertEqual(rank["sum"], 4)
            self.assertFalse(rank["all"])
            self.assertEqual(rank["seen"], 4 * 128 / 2)  # each rank validates its half

    def test_lightning_scales_losses(self):
        """By a power of two: the bits stay what they are. Where a gradient overflows on one rank
        both leave out the step, and halve the scale."""
        flags = ["batch=8", "strategy=sync", "epochs=2"]
        plain = self.job("by_lightning", *flags)
        scaled = self.job("by_lightning", *flags, "scale=1024")
        self.assertEqual([one["digest"] for one in scaled], [one["digest"] for one in plain])
        self.assertEqual([one["scale"] for one in scaled], [1024] * 2)
        left_out = self.job("by_lightning", *flags, "scale=1024", "overflow_at=5")
        self.assertEqual([one["scale"] for one in left_out], [512] * 2)
        self.assertEqual(left_out[0]["digest"], left_out[1]["digest"])
        self.assertNotEqual(left_out[0]["digest"], plain[0]["digest"])

    def test_transformers_is_exact(self):
        self.check_trainer("by_huggingface", "transformers/checkpoint-16")

    def test_a_signal_stops_all_ranks_after_the_same_step(self):
        for name in ("by_lightning", "by_huggingface"):
            self.job(name, "batch=8", "epochs=50", "stop_at=11", code=75)
            out = pathlib.Path(self.out, "run")
            self.assertEqual(len(list((out / "checkpoints").iterdir())), 1)
            self.assertTrue((out / "report.html").exists())

    def test_the_documentation_runs(self):
        text = (CHECKOUT / "docs" / "python.md").read_text()
        for title, ranks in (
            ("## Lightning", TWO_NODES),
            ("## transformers", TWO_NODES),
            ("## Notebook", ALONE),
        ):
            section = text[text.index(title) :]
            program = re.search(r"```python\n(.*?)```", section, re.S).group(1)
            path = pathlib.Path(self.folder.name, "program.py")
            path.write_text(program)
            with self.subTest(title=title):
                call(*ranks, PYTHON, str(path), cwd=self.folder.name)

    def test_refuses_what_a_trainer_decides(self):
        text = (
            "import daso\nfrom daso.lightning import DasoStrategy\n"
            "for flags in ({'epochs': 3}, {'resume': True}, {'ema': 0.9}):\n"
            "  try: DasoStrategy(**flags)\n"
            "  except daso.ConfigError as error: print(error)\n"
        )
        said = call(PYTHON, "-c", text)
        self.assertIn("epochs is a matter of Lightning", said)
        self.assertIn("goes on from its own checkpoints: trainer.fit(..., ckpt_path=PATH)", said)
        self.assertIn("ema is not supported", said)
        text = (
            "import torch, transformers, daso.huggingface\n"
            "args = transformers.TrainingArguments(output_dir='x', report_to='none')\n"
            "daso.huggingface.Trainer(model=torch.nn.Linear(2, 2), args=args)\n"
        )
        said = call(PYTHON, "-c", text, code=1, cwd=self.folder.name)
        self.assertIn("make them by daso.huggingface.TrainingArguments", said)


def missing() -> list[str]:
    text = "import importlib.util, sys; print([n for n in sys.argv[1:] if not importlib.util.find_spec(n)])"
    done = subprocess.run(
        [PYTHON, "-c", text, *PACKAGES], text=True, capture_output=True, check=True
    )
    return re.findall(r"\w+", done.stdout)


if __name__ == "__main__":
    if absent := missing():
        print(
            f"skipped: {PYTHON} has no {', '.join(absent)}; ./daso test --ecosystem installs them, "
            "or name a Python that has them by -DDASO_ECOSYSTEM_PYTHON=PATH"
        )
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
