# SPDX-License-Identifier: Apache-2.0
"""bench/gpu/compare on the CPU: small networks, real processes, and its arithmetic.

Run as: gpu_compare_test.py PROGRAM, with a Python that has PyTorch
"""
import importlib.machinery
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True

COMPARE = pathlib.Path(__file__).resolve().parents[2] / "bench" / "gpu" / "compare"
PROGRAM = sys.argv.pop(1)


def loaded():
    loader = importlib.machinery.SourceFileLoader("gpu_compare", str(COMPARE))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_compare", loader))
    loader.exec_module(module)
    return module


def run(*flags: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, str(COMPARE), "--program", PROGRAM, "--device", "cpu",
                           "--rounds", "1", "--steps", "2", "--warmup", "1", *flags],
                          capture_output=True, text=True, timeout=240, check=False)


class Arithmetic(unittest.TestCase):
    def test_ratios_are_of_medians(self):
        results = {"eager": [{"seconds_per_step": s} for s in (3, 1, 2)],
                   "daso": [{"seconds_per_step": s} for s in (4, 1, 0.5)]}
        eager, own = loaded().rows_of(results, work=10)
        self.assertEqual((2, 1, 3, 5, 2), (eager["seconds_per_step"], eager["fastest"],
                                           eager["slowest"], eager["per_second"],
                                           eager["daso_ratio"]))
        self.assertEqual((10, 1), (own["per_second"], own["daso_ratio"]))

    def test_every_round_begins_with_another(self):
        order = []
        candidates = {name: (lambda name=name: order.append(name)) for name in "abc"}
        loaded().in_turns(2, candidates)
        self.assertEqual("abcbca", "".join(order))


class OnTheCpu(unittest.TestCase):
    def test_models_take_turns(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "result.json"
            done = run("--models", "resnet50-2,transformer-2", "--peers", "eager,graph", "--size",
                       "32", "--layers", "1", "--embedding", "8", "--heads", "2", "--length", "4",
                       "--classes", "11", "--json", str(file))
            self.assertEqual(0, done.returncode, done.stderr)
            self.assertIn("images/s", done.stdout)
            self.assertIn("tokens/s", done.stdout)
            models = json.loads(file.read_text())["models"]
        self.assertEqual(["resnet50-2", "transformer-2"], list(models))
        for model in models.values():
            self.assertEqual(["eager", "daso"], [row["candidate"] for row in model["rows"]])

    def test_two_processes_train_together(self):
        done = run("--models", "nodes-2", "--peers", "eager", "--size", "32", "--precision", "fp32")
        self.assertEqual(0, done.returncode, done.stderr)
        for name in ("daso none", "daso ", "ddp"):
            self.assertIn(f"\n  {name}", done.stdout)

    def test_a_mistake_is_named(self):
        self.assertIn("like resnet50-64", run("--models", "vgg-3").stderr)
        self.assertIn("takes some of eager,graph,compile", run("--peers", "jit").stderr)
        done = run("--models", "resnet50-2", "--peers", "eager", "--size", "8")
        self.assertEqual(1, done.returncode)
        self.assertIn("needs images of at least 32x32", done.stderr)


if __name__ == "__main__":
    unittest.main()
