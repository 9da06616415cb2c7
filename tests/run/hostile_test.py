# SPDX-License-Identifier: Apache-2.0
"""Files and folders that are not as they should be, given to the program: each is one sentence and
exit code 2, or 1 for what happens later, and nothing of the user's is lost.

Run as: hostile_test.py DASO
"""
import array
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

DASO = sys.argv[1]
DATA = "synthetic:train=64,test=32,size=8,channels=1"
ALONE = ["--nodes", "1", "--ranks-per-node", "1"]
SHORT = ["--batch-size", "16", "--epochs", "1", "--trace", "none"]
JOB = ["--model", "mlp", *SHORT, *ALONE]
NOBODY = 65534


def run(*arguments: str | bytes, before: tuple[str, ...] = (), **options) -> subprocess.CompletedProcess:
    return subprocess.run([*before, DASO, *arguments], capture_output=True, timeout=60, **options)


class Hostile(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="daso_hostile_")
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def does(self, *arguments, **options) -> str:
        done = run(*arguments, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.decode()

    def refusal(self, *arguments, code: int = 2, **options) -> str:
        """One sentence of the program's own, and perhaps where its help is."""
        done = run(*arguments, **options)
        said = done.stderr.decode()
        self.assertEqual(done.returncode, code, said)
        lines = [line for line in said.splitlines() if not line.startswith("see daso ")]
        self.assertEqual(len(lines), 1, said)
        for foreign in ("filesystem error", "json.exception", "terminate", "basic_", "std::"):
            self.assertNotIn(foreign, said)
        return lines[0]

    def trained(self, *flags: str) -> pathlib.Path:
        out = self.folder / "run"
        self.does("train", "--data", DATA, *JOB, "--out", str(out), *flags)
        return out

    def test_any_name_of_a_file_comes_back_from_the_configuration(self):
        """A `#` or a new line in it once made a run that could not be read again."""
        text = self.folder / "no #1\n\"two\" \\ = ['x'] fünf"
        text.write_text("abcdefgh" * 400)
        out = self.folder / "run #2\nof it"
        small = ["--model", "transformer", "--layers", "1", "--embedding", "8", "--heads", "1"]
        self.does("train", "--data", f"text:{text},length=16", *SHORT, *ALONE, *small, "--out", str(out))
        self.assertIn("2 epochs", self.does("train", "--resume", "--out", str(out), "--epochs", "2"))
        told = json.loads(self.does("eval", str(out), "--ranks-per-node", "1", "--json"))
        self.assertEqual(told["data"], f"text:{text},length=16")
        self.does("train", "--config", str(out / "config.toml"), "--out", str(self.folder / "again"))

    def test_configuration_that_is_no_toml_is_refused_with_its_line(self):
        file = self.folder / "c.toml"
        for text in ["freeze = [\"a\"", "=", "[", "\"", "model = \"mlp"]:
            file.write_text("epochs = 1_0\n" + text + "\n")
            self.assertIn(f"{file}: line 2: ", self.refusal("train", "--config", str(file)))
        for text in ["epochs = 0x1", "model = \"\"\"mlp\"\"\"", "model = \"ml\\u0070\""]:
            file.write_text(text + "\nstrategy = \"dasso\"\n")
            self.assertIn(f"{file}: line 2: --strategy takes", self.refusal("train", "--config", str(file)))

    def test_writing_leaves_what_only_looks_like_a_draft(self):
        out = self.trained()
        mine = self.folder / "mine"
        mine.write_text("mine")
        (self.folder / "x.part").symlink_to(mine)
        (self.folder / "y.part").write_text("mine too")
        for name in "xy":
            self.does("export", str(out), "--to", str(self.folder / name))
        self.assertEqual(mine.read_text(), "mine")
        self.assertTrue((self.folder / "x.part").is_symlink())
        self.assertEqual((self.folder / "y.part").read_text(), "mine too")
        self.assertEqual((self.folder / "x").read_bytes(), (self.folder / "y").read_bytes())

    def test_name_that_is_no_utf8_is_refused_before_any_work(self):
        out = os.fsencode(self.folder) + b"/\xff"
        self.assertIn("\\xff' is not in UTF-8", self.refusal("train", "--data", DATA, *JOB, "--out", out))
        self.assertEqual(os.listdir(self.folder), [])

    def strange_paths(self) -> dict[str, pathlib.Path]:
        paths = {name: self.folder / name for name in ("circle", "pipe", "socket")}
        paths["circle"].symlink_to("circle")
        os.mkfifo(paths["pipe"])
        os.mknod(paths["socket"], 0o600 | 0o140000)
        paths["long"] = self.folder / ("n" * 300)
        paths["folder"] = self.folder / "folder"
        paths["folder"].mkdir()
        return paths

    def test_empty_name_is_not_taken_for_none(self):
        """As a shell's variable that is not set: --resume once went on with whatever was newest."""
        for flag in ("--config", "--init", "--out", "--resume"):
            for words in ([flag, ""], [flag + "="]):
                with self.subTest(words=words):
                    self.assertIn(f"{flag} has an empty name behind it", self.refusal("train", "--data", DATA, *JOB, *words))
        self.assertIn("the name of a file to write is empty", self.refusal("make", "text", ""))
        self.assertIn("File name too long", self.refusal("make", "text", "n" * 256))

    def test_strange_things_in_place_of_a_file(self):
        out = self.trained()
        for name, path in self.strange_paths().items():
            with self.subTest(name):
                for words in [["train", "--config", str(path)],
                              ["train", "--data", f"text:{path}", *ALONE],
                              ["train", "--data", DATA, *JOB, "--init", str(path), "--out", str(self.folder / "new")],
                              ["verify", str(path)]]:
                    self.assertIn(str(path), self.refusal(*words), words)
                for inside, words in [("manifest.json", ["eval", str(out), *ALONE]),
                                      ("config.toml", ["train", "--resume", "--out", str(out)]),
                                      ("metrics.jsonl", ["report", str(out)]),
                                      ("summary.json", ["report", str(out)]),
                                      ("status.json", ["top", "--once", str(out)])]:
                    if name == "long":
                        continue
                    place = next(out.rglob(inside))
                    place.rename(self.folder / "aside")
                    os.rename(path, place) if name == "folder" else place.symlink_to(path)
                    try:
                        self.assertIn(inside, self.refusal(*words), words)
                    finally:
                        os.rename(place, path) if name == "folder" else place.unlink()
                        (self.folder / "aside").rename(place)

    def test_strange_things_in_place_of_a_folder(self):
        file = self.folder / "file"
        file.write_text("text")
        for name, path in (self.strange_paths() | {"file": file, "below": file / "below"}).items():
            with self.subTest(name):
                for words in [["eval", str(path)], ["export", str(path), "--to", str(self.folder / "x")],
                              ["report", str(path)], ["top", "--once", str(path)],
                              ["train", "--resume", str(path), "--out", str(self.folder / "new"), *ALONE],
                              ["train", "--data", f"idx:{path}", *ALONE],
                              ["train", "--data", f"images:{path}", *ALONE]]:
                    self.assertIn(str(path), self.refusal(*words), words)
                if name != "folder":
                    words = ["train", "--data", DATA, *JOB, "--out", str(path)]
                    self.assertIn(str(path), self.refusal(*words), words)

    def test_current_folder_that_is_gone(self):
        gone = self.folder / "gone"
        gone.mkdir()
        script = 'cd "$1" && rmdir "$1" && shift && exec "$@"'
        words = ["sh", "-c", script, "sh", str(gone), DASO, "train", "--data", DATA]
        done = subprocess.run(words, capture_output=True, timeout=60, text=True)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertNotIn("filesystem error", done.stderr)

    def fill(self, file: pathlib.Path, tensor: str, value: float) -> None:
        """All values of a tensor in a safetensors file become this one."""
        data = bytearray(file.read_bytes())
        size = struct.unpack("<Q", data[:8])[0]
        begin, end = (offset + 8 + size for offset in json.loads(data[8:8 + size])[tensor]["data_offsets"])
        data[begin:end] = array.array("f", [value] * ((end - begin) // 4)).tobytes()
        file.write_bytes(data)

    def test_model_that_has_diverged(self):
        """Not the learning rate of the run that begins with it is at fault, and it has no accuracy."""
        best = self.trained("--keep-best") / "best.safetensors"
        self.fill(best, "fc3.bias", 3e38)
        self.fill(best, "fc2.weight", 3e38)
        for ranks in "12":
            done = run("eval", str(best.parent), "--best", "--ranks-per-node", ranks)
            self.assertEqual((done.returncode, done.stdout), (1, b""), done.stderr)
            self.assertIn(": the loss is ", done.stderr.decode())
            self.assertIn("all values of the model are finite, but what it computes", done.stderr.decode())
        self.fill(best, "fc2.weight", float("nan"))
        for words in [["train", "--data", DATA, *JOB, "--init", str(best), "--out", str(self.folder / "new")],
                      ["eval", str(best.parent), "--best", *ALONE]]:
            self.assertIn(f"{best}: tensor 'fc2.weight' has values that are not finite", self.refusal(*words))

    def test_folder_that_may_not_be_written(self):
        out = self.trained()
        if os.geteuid() == 0:
            if shutil.which("setpriv") is None:
                self.skipTest("there is no setpriv to become another user with")
            before = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
            if subprocess.run([*before, DASO, "--version"], capture_output=True).returncode != 0:
                self.skipTest(f"user {NOBODY} may not run {DASO}")
        else:
            before = ()
        self.folder.chmod(0o755)
        closed = self.folder / "closed"
        closed.mkdir()
        closed.chmod(0o555)
        for path in [closed, closed / "new", closed / "new" / "deep"]:
            said = self.refusal("train", "--data", DATA, *JOB, "--out", str(path), before=before)
            self.assertIn(f"--out {path}: ", said)
            self.assertIn("Permission denied", said)
        said = self.refusal("export", str(out), "--to", str(closed / "x"), before=before)
        self.assertIn("Permission denied", said)
        self.assertIn(str(closed / "x"), said)
        (out / "checkpoints").chmod(0)
        self.addCleanup((out / "checkpoints").chmod, 0o755)
        for words in [["eval", str(out), *ALONE], ["export", str(out), "--to", str(self.folder / "x")],
                      ["train", "--resume", "--out", str(out)]]:
            self.assertIn("Permission denied", self.refusal(*words, before=before), words)

    def mounted(self, options: str) -> pathlib.Path:
        disk = self.folder / "disk"
        disk.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(disk)], capture_output=True)
        if done.returncode != 0:
            self.skipTest(f"a disk cannot be mounted: {done.stderr.decode()}")
        self.addCleanup(subprocess.run, ["umount", str(disk)], check=True)
        return disk

    def test_disk_that_may_only_be_read(self):
        disk = self.mounted("size=1m,ro")
        for path in [disk, disk / "new"]:
            said = self.refusal("train", "--data", DATA, *JOB, "--out", str(path))
            self.assertIn(f"--out {path}: ", said)
            self.assertIn("Read-only file system", said)

    def test_disk_without_room(self):
        disk = self.mounted("size=64k")
        (disk / "large").write_bytes(bytes(60 * 1024))
        done = run("train", "--data", DATA, *JOB, "--out", str(disk / "run"))
        self.assertEqual(done.returncode, 1, done.stderr)
        for line in done.stderr.decode().splitlines():
            self.assertRegex(line, f"^daso: .*{disk}/run/.*(No space left on device|cannot be written)")


unittest.main(argv=sys.argv[:1])
