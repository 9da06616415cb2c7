# SPDX-License-Identifier: Apache-2.0
"""`daso train`, `eval` and `export` as their users run them.

Run as: program_test.py DASO PYTHON_WITH_TORCH
"""
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

sys.dont_write_bytecode = True
from kill_run import kill_run

DASO, PYTHON = sys.argv[1:3]
JOB = ["--data", "synthetic:train=512,test=128,size=8,channels=1", "--model", "mlp", "--batch-size", "16", "--nodes", "2", "--ranks-per-node", "2"]  # 8 steps an epoch


def daso(*arguments: str, code: int = 0) -> subprocess.CompletedProcess:
    done = subprocess.run([DASO, *arguments], text=True, capture_output=True, timeout=120)
    assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def await_checkpoint(run: pathlib.Path, job: subprocess.Popen) -> None:
    """Until the job has published its first one."""
    deadline = time.monotonic() + 60
    while not list((run / "checkpoints").glob("*/manifest.json")):
        assert time.monotonic() < deadline and job.poll() is None, f"no checkpoint in {run}"
        time.sleep(0.02)  # the job needs the cores


def await_metrics(run: pathlib.Path, job: subprocess.Popen) -> None:
    """Until the job has begun to train."""
    metrics = run / "metrics.jsonl"
    deadline = time.monotonic() + 60
    while not metrics.exists() or not metrics.read_text():
        assert time.monotonic() < deadline and job.poll() is None, f"no metrics in {run}"
        time.sleep(0.02)


def is_stopped(pid: int) -> bool:
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("T")


def read_terminal(terminal: int, limit: float) -> bytes:
    """All that is written to it until the last writer has closed it."""
    shown = b""
    deadline = time.monotonic() + limit
    while select.select([terminal], [], [], max(0, deadline - time.monotonic()))[0]:
        try:
            shown += os.read(terminal, 65536)
        except OSError:
            return shown  # how a terminal ends
    raise AssertionError(f"no end after {limit} s: {shown[-2000:]}")


class Program(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="daso-train-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def train(self, name: str, *flags: str, epochs: int = 4) -> dict:
        done = daso("train", *JOB, "--epochs", str(epochs), "--out", str(self.folder / name),
                    "--json", *flags)
        return json.loads(done.stdout)

    def export(self, name: str, kind: str = "safetensors") -> bytes:
        file = self.folder / f"{name}.{kind}"
        daso("export", str(self.folder / name), "--format", kind, "--to", str(file))
        return file.read_bytes()

    def test_leaves_what_it_says(self):
        summary = self.train("run", "--checkpoint-every", "2epochs", "--keep-best")
        self.assertEqual(summary["steps"], 32)
        self.assertEqual(summary["exit"], 0)
        run = self.folder / "run"
        self.assertEqual(json.loads((run / "summary.json").read_text()), summary)
        records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual([r["epoch"] for r in records if "test_accuracy" in r], [0, 1, 2, 3])
        self.assertIn('strategy = "daso"', (run / "config.toml").read_text())
        self.assertTrue((run / "best.safetensors").exists())
        score = json.loads(daso("eval", str(run), "--json").stdout)  # on its own data
        self.assertEqual(score["data"], JOB[1])
        self.assertAlmostEqual(score["test_accuracy"], summary["test_accuracy"])
        self.assertAlmostEqual(score["test_loss"], summary["test_loss"], places=5)

    def test_a_resolved_configuration_gives_the_same_run(self):
        self.train("first", "--lr", "0.05", "--seed", "7")
        again = self.folder / "again"
        daso("train", "--config", str(self.folder / "first/config.toml"), "--out", str(again))
        self.assertEqual(self.export("first"), self.export("again"))

    def test_a_recipe_is_in_the_configuration_and_its_average_in_the_checkpoint(self):
        flags = ["--base-lr", "0.5", "--lr-schedule", "step", "--lr-steps", "2,3", "--optimizer", "lars",
                 "--trust", "0.01", "--no-decay", "fc1,fc3.weight", "--label-smoothing", "0.1", "--ema", "0.9"]
        summary = self.train("first", *flags)
        again = self.folder / "again"
        daso("train", "--config", str(self.folder / "first/config.toml"), "--out", str(again))
        self.assertEqual(self.export("first"), self.export("again"))
        run = str(self.folder / "first")
        checkpoint = max(pathlib.Path(run).glob("checkpoints/step-*"))
        score = json.loads(daso("eval", str(checkpoint), "--ema", "--json").stdout)
        self.assertAlmostEqual(score["test_accuracy"], summary["test_accuracy"])
        self.assertAlmostEqual(score["test_loss"], summary["test_loss"], places=5)
        average = self.folder / "average.safetensors"
        daso("export", run, "--ema", "--to", str(average))
        self.assertNotEqual(average.read_bytes(), self.export("first"))
        self.train("plain", epochs=1)
        self.assertIn("no averaged parameters",
                      daso("eval", str(self.folder / "plain"), "--data", JOB[1], "--ema", code=2).stderr)
        self.assertIn("--lr-power", daso("train", *JOB, "--lr-power", "2", code=2).stderr)

    def test_runs_that_begin_in_one_second_have_folders_of_their_own(self):
        flags = ["--data", JOB[1], "--model", "mlp", "--epochs", "1", "--nodes", "1", "--ranks-per-node", "1"]
        jobs = [subprocess.Popen([DASO, "train", *flags], cwd=self.folder, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True) for _ in range(4)]
        folders = []
        for job in jobs:
            output, error = job.communicate(timeout=120)
            self.assertEqual(job.returncode, 0, error)
            folders.append(re.search(r"^output in (\S+)$", output, re.MULTILINE)[1])
        self.assertEqual(len(set(folders)), len(jobs), folders)
        for folder in folders:
            self.assertRegex(folder, r"^runs/\d{4}-\d\d-\d\d-\d{6}(-[2-4])?$")
            self.assertTrue((self.folder / folder / "summary.json").is_file())

    def test_takes_the_number_of_threads_from_openmp(self):
        def threads(name: str, asked: str, *flags: str) -> str:
            done = subprocess.run(
                [DASO, "train", "--data", JOB[1], "--model", "mlp", "--epochs", "1", "--nodes", "1",
                 "--ranks-per-node", "2", "--out", str(self.folder / name), *flags],
                text=True, capture_output=True, timeout=120, env={**os.environ, "OMP_NUM_THREADS": asked})
            if done.returncode != 0:
                return done.stderr
            return re.search(r"^threads = (\d+)$", (self.folder / name / "config.toml").read_text(), re.MULTILINE)[1]

        self.assertEqual(threads("two", "2"), "2")
        self.assertEqual(threads("list", "3,1"), "3")
        self.assertEqual(threads("flag", "2", "--threads", "1"), "1")
        self.assertIn("environment variable OMP_NUM_THREADS takes a whole number in 1 ... 1024, got 'all'",
                      threads("wrong", "all"))

    def test_goes_on_by_itself(self):
        """--resume needs neither the flags of the run nor the number of its ranks."""
        flags = ["--config", str(self.folder / "job.toml"), "--epochs", "4"]
        (self.folder / "job.toml").write_text(
            'data = "synthetic:train=512,test=128,size=8,channels=1"\nmodel = "mlp"\n'
            'batch-size = 16\nlr = 0.05\nnodes = 2\nranks-per-node = "1,2"\n')
        daso("train", *flags, "--out", str(self.folder / "whole"))
        run = self.folder / "halves"
        job = subprocess.Popen([DASO, "train", *flags, "--checkpoint-every", "3steps", "--out", str(run)],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        await_checkpoint(run, job)
        kill_run(run)
        job.wait(timeout=60)
        daso("train", "--resume", "--out", str(run))
        self.assertEqual(self.export("halves"), self.export("whole"))
        steps = [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual(steps, sorted(set(steps)))
        done = daso("train", "--resume", "--out", str(run))
        self.assertIn("this run is finished", done.stdout)
        # Another number of ranks, from the beginning of an epoch, and it is said.
        done = daso("train", "--resume", "--out", str(run), "--epochs", "5", "--nodes", "2",
                    "--ranks-per-node", "1")
        self.assertIn("going on with 2 ranks on 2 nodes from the beginning of epoch 5", done.stderr)

    def test_keeps_the_flags_of_its_checkpoints(self):
        """Not those of an attempt to go on that came to nothing."""
        self.train("run", epochs=1)
        run = self.folder / "run"
        config = (run / "config.toml").read_text()
        daso("train", "--resume", "--out", str(run), "--epochs", "3", "--lr", "1e30", code=1)
        self.assertEqual((run / "config.toml").read_text(), config)
        daso("train", "--resume", "--out", str(run), "--seed", "7")  # all epochs are done
        self.assertEqual((run / "config.toml").read_text(), config)
        done = daso("train", "--resume", "--out", str(run), "--epochs", "2", "--nodes", "1")
        self.assertIn("going on with 2 ranks on 1 nodes", done.stderr)
        self.assertIn("epochs = 2\n", (run / "config.toml").read_text())
        done = daso("train", "--resume", "--out", str(run), "--epochs", "3", "--ranks-per-node", "2,1")
        self.assertIn("going on with 3 ranks on 2 nodes", done.stderr)
        done = daso("train", "--resume", "--out", str(run), "--epochs", "4", "--nodes", "1")
        self.assertIn("going on with 2 ranks on 1 nodes", done.stderr)

    def test_goes_on_elsewhere_with_a_checkpoint_there(self):
        """Also where nothing is left to do."""
        self.train("run", epochs=1)
        copy = self.folder / "copy"
        daso("train", "--resume", str(self.folder / "run/checkpoints/step-000000008"), "--out", str(copy))
        daso("eval", str(copy), "--data", JOB[1])

    def test_goes_on_with_another_schedule_of_the_rate(self):
        """What the run has for the one before does not count."""
        self.train("run", epochs=1)
        config = self.folder / "run/config.toml"
        self.assertIn("lr-end", config.read_text())
        daso("train", "--resume", "--out", str(self.folder / "run"), "--epochs", "2", "--lr-schedule", "constant")
        self.assertIn('lr-schedule = "constant"', config.read_text())
        self.assertNotIn("lr-end", config.read_text())

    def test_says_how_to_go_on_with_a_run(self):
        """A run's folder is none of a checkpoint."""
        self.train("run", epochs=1)
        run = self.folder / "run"
        self.assertIn(f"--resume --out {run} goes on", daso("train", "--resume", str(run), code=2).stderr)

    def test_goes_on_without_the_model_that_it_began_with(self):
        self.train("first", epochs=1)
        self.export("first")
        model, run = self.folder / "first.safetensors", self.folder / "run"
        self.train("run", "--init", str(model), epochs=1)
        self.assertIn(f'init = "{model}"', (run / "config.toml").read_text())
        resume = ["train", "--resume", "--out", str(run), "--epochs", "2"]
        model.unlink()
        self.assertIn("going on with step 8", daso(*resume).stdout)

    def test_draws_a_bar_on_a_terminal(self):
        """Also where a launcher stands between the ranks and the terminal."""
        for ranks in ("2", "1"):
            terminal, end = pty.openpty()
            fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
            job = subprocess.Popen([DASO, "train", *JOB[:6], "--nodes", "1", "--ranks-per-node", ranks,
                                    "--epochs", "60", "--out", str(self.folder / f"run{ranks}")],
                                   stdout=end, stderr=subprocess.DEVNULL)
            self.addCleanup(job.kill)
            os.close(end)
            shown = read_terminal(terminal, limit=120)
            os.close(terminal)
            self.assertEqual(job.wait(timeout=60), 0)
            bars = re.findall(r"epoch \d+ of 60 \[#*\.*\] [^\r\n]* left[^\r\n]*", shown.decode())
            self.assertGreater(len(bars), 1, shown[-2000:])
            self.assertLess(max(map(len, bars)), 100)
            self.assertNotIn("[0.0]", shown.decode())

    def test_a_folder_with_a_run_is_not_written_over(self):
        self.train("run", epochs=1)
        done = daso("train", *JOB, "--out", str(self.folder / "run"), code=2)
        self.assertIn("--resume", done.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "mounting a small disk takes root")
    def test_a_full_disk_leaves_the_checkpoint_before(self):
        disk = self.folder / "disk"
        disk.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=9m", "tmpfs", str(disk)],
                                 text=True, capture_output=True)
        if mounted.returncode != 0:
            self.skipTest(f"a small disk cannot be mounted: {mounted.stderr}")
        self.addCleanup(subprocess.run, ["umount", str(disk)], check=True)
        run = disk / "run"
        self.train("whole")
        flags = [*JOB, "--epochs", "4", "--out", str(run), "--checkpoint-every", "2steps"]
        daso("train", *flags, "--keep", "1")  # three fit at a time
        shutil.rmtree(run)
        # With all of them kept the disk is full before the run ends; the run goes on.
        done = daso("train", *flags, "--keep", "1000", code=1)
        self.assertIn("No space left on device", done.stderr)
        self.assertIn("no checkpoint at step", done.stderr)
        self.assertIn("epoch   4 of 4", done.stdout)
        kept = sorted((run / "checkpoints").glob("*/manifest.json"))
        self.assertGreater(len(kept), 0)
        shutil.rmtree(kept[0].parent)
        daso("train", "--resume", "--out", str(run), "--keep", "1")
        daso("export", str(run), "--format", "safetensors", "--to", str(self.folder / "disk.safetensors"))
        self.assertEqual((self.folder / "disk.safetensors").read_bytes(), self.export("whole"))

    def test_a_disk_that_hangs_ends_the_run_with_its_name(self):
        """Who opens a file waits while another has a lease on it: so does an old checkpoint on such a disk."""
        run = self.folder / "run"
        job = subprocess.Popen([DASO, "train", *JOB[:6], "--nodes", "1", "--ranks-per-node", "2", "--epochs", "60",
                                "--checkpoint-every", "40steps", "--timeout", "6", "--out", str(run)],
                               text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(job.kill)
        await_checkpoint(run, job)
        old = self.folder / "old"
        old.mkdir()
        (old / "manifest.json").write_text("{}")
        signal.signal(signal.SIGIO, signal.SIG_IGN)  # by which the lease is asked back
        leased = open(old / "manifest.json", "r+")
        self.addCleanup(leased.close)
        try:
            fcntl.fcntl(leased, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except OSError as error:
            self.skipTest(f"no leases in {old}: {error}")
        old.rename(run / "checkpoints/step-000000001")
        _, errors = job.communicate(timeout=120)
        self.assertEqual(job.returncode, 1, errors)
        self.assertIn("old checkpoints could not be removed", errors)
        self.assertIn(f"the disk hangs, removing old checkpoints of {run / 'checkpoints'} is still not done", errors)

    def test_sigterm_saves_and_ends_as_stopped(self):
        """However long that takes: the grace time is for ranks that fail."""
        self.train("whole", epochs=40)
        job = subprocess.Popen([DASO, "train", *JOB, "--epochs", "40", "--out",
                                str(self.folder / "stopped"), "--json", "--grace", "0.01"], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        await_metrics(self.folder / "stopped", job)
        job.send_signal(signal.SIGTERM)
        output, errors = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 75, errors)
        self.assertLess(json.loads(output)["steps"], 320)
        self.train("stopped", "--resume", epochs=40)
        self.assertEqual(self.export("stopped"), self.export("whole"))

    def test_ctrl_z_loses_nobody(self):
        self.train("whole", epochs=40)
        run = self.folder / "stopped"
        job = subprocess.Popen([DASO, "train", *JOB, "--epochs", "40", "--out", str(run)], text=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               process_group=0)  # as a shell does; Ctrl-Z needs one to go on by
        self.addCleanup(job.kill)
        await_metrics(run, job)
        job.send_signal(signal.SIGTSTP)
        deadline = time.monotonic() + 20
        while not is_stopped(job.pid):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        before = (run / "metrics.jsonl").read_text()
        time.sleep(3)  # how long it stands still: six roll calls
        self.assertEqual((run / "metrics.jsonl").read_text(), before)
        job.send_signal(signal.SIGCONT)
        _, errors = job.communicate(timeout=120)
        self.assertEqual(job.returncode, 0, errors)
        self.assertEqual(self.export("stopped"), self.export("whole"))

    def test_ctrl_z_stops_nobody_where_no_shell_could_let_them_go_on(self):
        run = self.folder / "alone"
        job = subprocess.Popen([DASO, "train", *JOB, "--epochs", "40", "--out", str(run)], text=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               start_new_session=True)  # as of ssh -t
        self.addCleanup(job.kill)
        await_metrics(run, job)
        job.send_signal(signal.SIGTSTP)
        _, errors = job.communicate(timeout=120)
        self.assertEqual(job.returncode, 0, errors)

    def test_python_reads_what_is_exported(self):
        self.train("run", epochs=1)
        self.export("run")
        self.export("run", "pytorch")
        program = """
import json, struct, sys, torch
data = open(sys.argv[1], 'rb').read()
size = struct.unpack('<Q', data[:8])[0]
header = json.loads(data[8:8 + size])
loaded = torch.load(sys.argv[2], weights_only=True)
names = [name for name in header if name != '__metadata__']
assert sorted(names) == sorted(loaded), (names, list(loaded))
for name in names:
    begin, end = header[name]['data_offsets']
    value = torch.frombuffer(bytearray(data[8 + size + begin:8 + size + end]), dtype=torch.float32)
    assert torch.equal(value.view(header[name]['shape']), loaded[name]), name
print('equal', len(names))
"""
        done = subprocess.run([PYTHON, "-c", program, str(self.folder / "run.safetensors"),
                               str(self.folder / "run.pytorch")], text=True, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("equal", done.stdout)

    def test_says_what_is_wrong_before_any_rank_starts(self):
        config = self.folder / "c.toml"
        for text, word in [("epohcs = 3\n", "epochs"), ("epochs = \"many\"\n", "--epochs"),
                           ("strategy = \"dasso\"\n", "daso"), ("epochs = \n[", "")]:
            config.write_text(text)
            done = daso("train", "--config", str(config), code=2)
            self.assertIn(word, done.stderr)
        self.assertIn("resnet20", daso("train", "--model", "resnet21", code=2).stderr)
        self.assertIn("--wire", daso("train", *JOB, "--strategy", "sync", "--wire", "int8",
                                     "--out", str(self.folder / "x"), code=2).stderr)
        for out in ["/dev/null", "/proc/x"]:
            said = daso("train", *JOB, "--out", out, code=2).stderr
            self.assertIn(f"--out {out}: the folder cannot be made: ", said)
        self.assertIn("no-such-folder", daso("eval", "no-such-folder", code=2).stderr)


unittest.main(argv=sys.argv[:1])
