# SPDX-License-Identifier: Apache-2.0
"""What becomes of a trained model: predict, generate, eval by class, exports that describe
themselves, and weights that come from PyTorch. Expected numbers are PyTorch's own.

Run as: using_test.py DASO, with a Python that has torch
"""
import json
import math
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import warnings
import zlib

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
import torch

DASO = sys.argv.pop(1)
ALONE = ["--nodes", "1", "--ranks-per-node", "1", "--batch-size", "16", "--trace", "none"]
GRAY = ["--data", "synthetic:train=128,test=64,size=8,channels=1", "--model", "mlp", *ALONE]


def daso(*arguments: str, code: int = 0) -> subprocess.CompletedProcess:
    done = subprocess.run([DASO, *map(str, arguments)], text=True, capture_output=True, timeout=120)
    assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def write_png(path: pathlib.Path, rows: list[list[tuple[int, ...]]]) -> None:
    """Pixels of one or three numbers."""
    colours = len(rows[0][0])
    raw = b"".join(b"\0" + bytes(value for pixel in row for value in pixel) for row in rows)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0 if colours == 1 else 2, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) +
                     chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b""))


def read_safetensors(path: pathlib.Path) -> tuple[dict, dict]:
    """Tensors of float32, and the metadata."""
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8:8 + length])
    metadata = header.pop("__metadata__")
    tensors = {}
    for name, entry in header.items():
        if entry["dtype"] != "F32":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        tensors[name] = torch.frombuffer(bytearray(raw[begin:end]), dtype=torch.float32).reshape(
            entry["shape"])
    return tensors, metadata


def mlp(tensors: dict, images: torch.Tensor) -> torch.Tensor:
    hidden = images.flatten(1)
    for layer in ("fc1", "fc2", "fc3"):
        hidden = torch.nn.functional.linear(hidden, tensors[f"{layer}.weight"], tensors[f"{layer}.bias"])
        hidden = hidden.relu() if layer != "fc3" else hidden
    return hidden


class Using(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="daso-using-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def train(self, *flags: str, name: str = "run") -> tuple[pathlib.Path, dict]:
        run = self.folder / name
        done = daso("train", "--out", run, "--json", *flags)
        return run, json.loads(done.stdout)

    def exported(self, run: pathlib.Path, name: str = "model.safetensors") -> pathlib.Path:
        daso("export", run, "--to", self.folder / name)
        return self.folder / name

    def image_folder(self) -> pathlib.Path:
        """Two classes: dark and bright."""
        data = self.folder / "data"
        for part, number in (("train", 8), ("val", 4)):
            for label, level in (("bright", 200), ("dark", 40)):
                folder = data / part / label
                folder.mkdir(parents=True)
                for i in range(number):
                    pixels = [[(level + i, level, level - i)] * 12 for _ in range(10)]
                    write_png(folder / f"{i}.png", pixels)
        return data

    def test_predicts_what_pytorch_computes(self):
        run, _ = self.train(*GRAY, "--epochs", "1")
        model = self.exported(run)
        tensors, about = read_safetensors(model)
        levels = [[(y * 8 + x) * 4 for x in range(8)] for y in range(8)]
        image = self.folder / "gray.png"
        write_png(image, [[(level,) for level in row] for row in levels])
        pixels = torch.tensor(levels) / 255
        (mean,), (deviation,) = json.loads(about["mean"]), json.loads(about["deviation"])
        wanted = mlp(tensors, ((pixels - mean) / deviation).unsqueeze(0)).softmax(1)[0]
        for source in (run, model, *run.glob("checkpoints/*")):
            (found,) = json.loads(daso("predict", source, image, "--top", "100", "--json").stdout)
            self.assertEqual(str(image), found["image"])
            self.assertEqual(len(wanted), len(found["classes"]))
            for one in found["classes"]:
                self.assertAlmostEqual(wanted[one["class"]].item(), one["probability"], places=5)
            chances = [one["probability"] for one in found["classes"]]
            self.assertEqual(sorted(chances, reverse=True), chances)
        five = json.loads(daso("predict", run, image, "--json").stdout)[0]["classes"]
        self.assertEqual(5, len(five))

    def test_predicts_photographs_by_name(self):
        data = self.image_folder()
        run, summary = self.train("--data", f"images:{data},size=8", "--model", "mlp", "--epochs",
                                  "4", *ALONE[:4], "--batch-size", "4")
        self.assertNotIn("top5", summary)  # of two classes
        shown = daso("predict", run, data / "val" / "dark", data / "val/bright/0.png").stdout
        lines = shown.splitlines()
        self.assertEqual(5, len(lines))
        for line in lines:
            self.assertRegex(line, r"^.*\.png: (bright|dark) \d+\.\d\d %, (bright|dark) \d+\.\d\d %$")
        score = json.loads(daso("eval", run, "--json").stdout)
        by_name = {one["name"]: one for one in score["classes"]}
        self.assertEqual({"bright", "dark"}, set(by_name))
        self.assertEqual(4, by_name["dark"]["examples"])
        # What predict says of the test part is what eval counts.
        dark = sum(": dark " in line for line in lines[:4])
        self.assertEqual(dark / 4, by_name["dark"]["accuracy"])

    def test_refuses_what_it_cannot_predict(self):
        run, _ = self.train(*GRAY, "--epochs", "1")
        broken = self.folder / "broken.png"
        broken.write_bytes(b"no image")
        self.assertIn("neither a JPEG nor a PNG", daso("predict", run, broken, code=2).stderr)
        self.assertIn("there is no image", daso("predict", run, "nowhere.png", code=2).stderr)
        self.assertIn("holds no images", daso("predict", run, self.folder / "run", code=2).stderr)
        self.assertIn("is a model of images", daso("generate", run, "--prompt", "a", code=2).stderr)

    def test_generates_text(self):
        text = self.folder / "text"
        text.write_text("abcä " * 800)
        run, summary = self.train("--data", f"text:{text},tokens=characters,length=8", "--model",
                                  "transformer", "--embedding", "16", "--layers", "1", "--lr",
                                  "0.01", "--epochs", "3", *ALONE)
        self.assertAlmostEqual(math.exp(summary["test_loss"]), summary["perplexity"], places=4)
        score = daso("eval", run).stdout
        self.assertIn("perplexity", score)
        # It has learned what follows: without chance it says it.
        greedy = daso("generate", run, "--prompt", "abcä a", "--tokens", "20", "--temperature", "0")
        self.assertEqual("abcä abcä abcä abcä abcä a"[:26], greedy.stdout.rstrip("\n")[:26])
        drawn = [daso("generate", run, "--prompt", "a", "--temperature", "50", "--seed", seed).stdout
                 for seed in ("1", "1", "2")]
        self.assertEqual(drawn[0], drawn[1])
        self.assertNotEqual(drawn[0], drawn[2])
        self.assertEqual(202, len(drawn[0]))
        first = daso("generate", run, "--prompt", "a", "--temperature", "50", "--top-k", "1").stdout
        self.assertEqual(first, daso("generate", run, "--prompt", "a", "--temperature", "0").stdout)
        model = self.exported(run)
        self.assertEqual(first, daso("generate", model, "--prompt", "a", "--top-k", "1").stdout)
        self.assertIn("character 'x'", daso("generate", run, "--prompt", "ax", code=2).stderr)
        self.assertIn("empty", daso("generate", run, "--prompt", "", code=2).stderr)
        image = self.folder / "gray.png"
        write_png(image, [[(0,)]])
        self.assertIn("model of texts", daso("predict", run, image, code=2).stderr)

    def test_generates_bytes(self):
        text = self.folder / "text"
        text.write_bytes(bytes(range(256)) * 20)
        run, _ = self.train("--data", f"text:{text},length=8", "--model", "transformer", "--embedding",
                            "16", "--layers", "1", "--max-steps", "2", *ALONE)
        command = [DASO, "generate", run, "--prompt", "ü", "--tokens", "7"]
        done = subprocess.run(command, capture_output=True, timeout=60, check=True)
        self.assertEqual(len("ü".encode()) + 7 + 1, len(done.stdout))

    def test_scores_are_those_of_pytorch(self):
        run, summary = self.train(*GRAY, "--epochs", "1")
        score = json.loads(daso("eval", run, "--json").stdout)
        self.assertEqual(score["top5"], summary["top5"])
        total = sum(one["examples"] for one in score["classes"])
        self.assertEqual(score["examples"], total)
        right = sum(one["examples"] * (one["accuracy"] or 0) for one in score["classes"])
        self.assertAlmostEqual(score["test_accuracy"], right / total)
        self.assertGreaterEqual(score["top5"], score["test_accuracy"])
        lines = daso("eval", run).stdout.splitlines()
        self.assertIn("top-5", lines[0])
        self.assertEqual(sum(one["examples"] > 0 for one in score["classes"]), len(lines) - 1)

    def test_exports_describe_themselves(self):
        data = self.image_folder()
        run, _ = self.train("--data", f"images:{data},size=8", "--model", "cnn", "--max-steps", "1",
                            *ALONE[:4], "--batch-size", "4")
        _, about = read_safetensors(self.exported(run))
        self.assertEqual("cnn", about["model"])
        self.assertEqual(["bright", "dark"], json.loads(about["class_names"]))
        self.assertEqual(("8", "8", "3", "2", "9", "image"),
                         tuple(about[key] for key in ("height", "width", "channels", "classes",
                                                      "resize", "input")))
        self.assertEqual(3, len(json.loads(about["mean"])))
        again = daso("export", self.folder / "model.safetensors", "--to", self.folder / "b.safetensors")
        self.assertIn("safe_open(", again.stdout)
        self.assertEqual((self.folder / "model.safetensors").read_bytes(),
                         (self.folder / "b.safetensors").read_bytes())

    def test_the_ending_tells_the_format(self):
        run, _ = self.train(*GRAY, "--max-steps", "1")
        for name in ("a.pt", "a.pth"):
            done = daso("export", run, "--to", self.folder / name)
            lines = done.stdout.split("\n\n", 1)[1]
            scope = {}
            exec(lines, scope)  # as the command says
            self.assertIn("fc1.weight", scope["tensors"])
        message = daso("export", run, "--to", self.folder / "a.pt", "--format", "safetensors",
                       code=2).stderr
        self.assertIn("change one of them", message)
        daso("export", run, "--to", self.folder / "plain", "--format", "pytorch")
        self.assertIn("fc1.weight", torch.load(self.folder / "plain", weights_only=True))
        message = daso("predict", self.folder / "a.pt", self.folder / "a.pt", code=2).stderr
        self.assertIn("does not say what network", message)

    def test_begins_with_weights_of_pytorch(self):
        run, _ = self.train(*GRAY, "--max-steps", "1")
        tensors, _ = read_safetensors(self.exported(run))
        weights = self.folder / "theirs.pt"
        torch.save(tensors, weights)
        shown = daso("train", *GRAY, "--max-steps", "1", "--init", weights, "--out",
                     self.folder / "second").stdout
        self.assertIn(f"--init {weights}: 6 tensors\n", shown)
        other = dict(tensors, **{"fc3.weight": torch.ones(3, 256), "fc3.bias": torch.ones(3)})
        torch.save(other, weights)
        flags = [*GRAY, "--max-steps", "1", "--init", weights, "--out", self.folder / "third"]
        message = daso("train", *flags, code=2).stderr
        self.assertIn("--init-skip", message)
        self.assertIn("fc3", message)
        shown = daso("train", *flags, "--init-skip", "fc3", "--lr", "1e-30").stdout
        self.assertIn("4 tensors, without fc3.bias, fc3.weight", shown)
        kept, _ = read_safetensors(self.exported(self.folder / "third", "third.safetensors"))
        for name in ("fc1.weight", "fc2.bias"):
            self.assertTrue(torch.equal(kept[name], tensors[name]), name)
        message = daso("train", *flags[:-1], self.folder / "x", "--init-skip", "nothing", code=2).stderr
        self.assertIn("--init-skip nothing", message)
        message = daso("train", *flags[:-1], self.folder / "x", "--init-skip", "fc", code=2).stderr
        self.assertIn("begins with fc and a dot; did you mean fc1?", message)
        # What is left out may be anything.
        torch.save(dict(other, **{"fc3.bias": torch.full((3,), float("nan"))}), weights)
        daso("train", *flags[:-1], self.folder / "z", "--init-skip", "fc3")
        message = daso("train", *GRAY, "--init-skip", "fc3", "--out", self.folder / "y", code=2).stderr
        self.assertIn("give --init as well", message)

    def test_ends_after_max_steps(self):
        run, summary = self.train(*GRAY, "--max-steps", "3", "--epochs", "2")  # of 16 steps
        self.assertEqual((3, 0), (summary["steps"], summary["exit"]))
        self.assertIn("test_accuracy", summary)
        self.assertEqual("finished", json.loads((run / "status.json").read_text())["state"])
        again = daso("train", "--resume", "--out", run).stdout
        self.assertIn("this run is finished: all 3 steps are done", again)
        done = daso("train", "--resume", "--out", run, "--max-steps", "12", "--json").stdout
        self.assertEqual(12, json.loads(done)["steps"])
        daso("train", *GRAY, "--max-steps", "0", "--out", self.folder / "x", code=2)


if __name__ == "__main__":
    unittest.main()
