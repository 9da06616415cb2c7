# SPDX-License-Identifier: Apache-2.0
"""The data, networks and precisions that people come with, as they use them.

Run as: breadth_test.py DASO
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

DASO = sys.argv[1]
SMALL = ["--data", "synthetic:train=512,test=128,size=16,channels=1", "--batch-size", "16"]
TWO_NODES = ["--nodes", "2", "--ranks-per-node", "1"]


def daso(*arguments: str, code: int = 0) -> subprocess.CompletedProcess:
    done = subprocess.run([DASO, *arguments], text=True, capture_output=True, timeout=200)
    assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done


class Breadth(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="daso-breadth-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def train(self, name: str, *flags: str) -> dict:
        done = daso("train", "--out", str(self.folder / name), "--json", *flags)
        return json.loads(done.stdout)

    def test_learns_a_text(self):
        text = self.folder / "text"
        daso("make", "text", str(text), "--bytes", "60000")
        self.assertEqual(text.stat().st_size, 60000)
        job = ["--data", f"text:{text}", "--model", "transformer", "--layers", "1", "--embedding",
               "32", "--batch-size", "4", "--lr", "0.005", "--epochs", "4", *TWO_NODES]
        losses = {s: self.train(s, "--strategy", s, *job) for s in ("sync", "daso")}
        # The frequencies of the letters alone give 2.8, those of 256 equal bytes 5.5.
        self.assertLess(losses["sync"]["train_loss"], 2.6)
        self.assertLess(losses["daso"]["train_loss"], losses["sync"]["train_loss"] + 0.3)
        score = json.loads(daso("eval", str(self.folder / "daso"), "--data", f"text:{text}",
                                "--json").stdout)
        self.assertAlmostEqual(score["test_loss"], losses["daso"]["test_loss"], places=4)
        self.assertNotIn("bad_images", score)

    def test_a_text_needs_its_own_vocabulary(self):
        text, other = self.folder / "text", self.folder / "other"
        text.write_text("abc äöü " * 400)
        other.write_text("xyz äöü " * 400)
        self.train("run", "--data", f"text:{text},tokens=characters,length=8", "--model",
                   "transformer", "--embedding", "16", "--epochs", "1", *TWO_NODES)
        others = ["--data", f"text:{other},tokens=characters,length=8"]
        self.assertIn("vocabulary", daso("eval", str(self.folder / "run"), *others, code=2).stderr)
        done = daso("train", "--out", str(self.folder / "run"), "--resume", *others, code=2)
        self.assertIn("vocabulary", done.stderr)
        done = daso("train", "--data", f"text:{text}", "--model", "cnn", *TWO_NODES, "--out",
                    str(self.folder / "x"), code=2)
        self.assertIn("take model 'transformer'", done.stderr)

    def test_a_run_with_dropout_goes_on_with_it(self):
        text, whole = self.folder / "text", self.folder / "whole"
        text.write_text("eins zwei drei vier " * 200)  # 28 steps an epoch
        self.train("whole", "--data", f"text:{text},length=16", "--model", "transformer",
                   "--embedding", "16", "--batch-size", "4", "--epochs", "2", "--dropout", "0.25",
                   "--checkpoint-every", "40steps", *TWO_NODES)
        self.assertIn("dropout = 0.25\n", (whole / "config.toml").read_text())
        self.train("rest", "--resume", str(whole / "checkpoints" / "step-000000040"))
        models = [self.folder / "whole.safetensors", self.folder / "rest.safetensors"]
        for model in models:
            daso("export", str(model.with_suffix("")), "--to", str(model))
        self.assertEqual(models[0].read_bytes(), models[1].read_bytes())
        done = daso("train", *SMALL, "--model", "cnn", "--dropout", "0.1", code=2)
        self.assertIn("--dropout changes nothing here", done.stderr)

    def test_bad_images_are_skipped_and_counted_by_train_and_eval(self):
        images, run = self.folder / "images", str(self.folder / "run")
        daso("make", "images", str(images), "--classes", "2", "--train", "8", "--val", "4", "--size", "16")
        # Of the second rank's half of the test part, which holds the images that could replace it.
        bad = images / "val" / "class001" / "00001.jpg"
        bad.write_text("damaged")
        data = ["--data", f"images:{images},size=8"]
        summary = self.train("run", *data, "--skip-bad-images", "--model", "mlp", "--batch-size", "4",
                             "--epochs", "1", *TWO_NODES)
        self.assertEqual(summary["bad_images"], 1)
        score = json.loads(daso("eval", run, *data, "--skip-bad-images", "--json").stdout)
        self.assertEqual(score["bad_images"], 1)
        self.assertEqual(score["examples"], 8)
        self.assertAlmostEqual(score["test_loss"], summary["test_loss"], places=4)
        done = daso("eval", run, *data, "--skip-bad-images", "--loader-threads", "2")
        self.assertIn("bad images 1\n", done.stdout)
        self.assertIn(str(bad), done.stderr)
        self.assertIn(str(bad), daso("eval", run, *data, code=2).stderr)
        done = daso("eval", run, "--data", "synthetic", "--skip-bad-images", code=2)
        self.assertIn("--skip-bad-images changes nothing here", done.stderr)

    def test_a_model_of_images_keeps_the_names_of_its_classes(self):
        images, run = self.folder / "images", str(self.folder / "run")
        daso("make", "images", str(images), "--classes", "2", "--train", "8", "--val", "4", "--size", "16")
        data = ["--data", f"images:{images},size=8"]
        self.train("run", *data, "--model", "mlp", "--batch-size", "4", "--epochs", "1", *TWO_NODES)
        daso("eval", run)
        for part in ("train", "val"):
            (images / part / "class000").rename(images / part / "other")
        done = daso("eval", run, code=2)
        self.assertIn(f"{data[1]} has class 'class001' where {run} was trained with 'class000'", done.stderr)

    def test_precisions_learn_alike(self):
        accuracy = {}
        for precision in ("fp32", "bf16", "fp16"):
            for strategy in ("sync", "daso"):
                summary = self.train(f"{precision}-{strategy}", *SMALL, "--model", "cnn",
                                     "--epochs", "3", "--precision", precision, "--strategy",
                                     strategy, *TWO_NODES)
                accuracy[precision, strategy] = summary["test_accuracy"]
                self.assertEqual(summary["skipped_steps"], 0)
        for key, value in accuracy.items():
            self.assertGreater(value, accuracy["fp32", "sync"] - 0.1, f"{key} of {accuracy}")


unittest.main(argv=sys.argv[:1])
