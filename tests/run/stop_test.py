# SPDX-License-Identifier: Apache-2.0
"""How `daso train` stops: told by signals, without its launcher, without its output, without what it
needs.

Run as: stop_test.py DASO
"""
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

DASO = os.path.abspath(sys.argv[1])
LIMIT = 120  # seconds, far above what any of it takes
QUICK = ["--data", "synthetic:train=512,test=64,size=8,channels=1", "--model", "mlp", "--batch-size", "16", "--trace", "none"]
# Steps that take long enough for a signal to come in the one that it is meant for.
SLOW = ["--data", "synthetic:train=1024,test=16,size=32", "--model", "resnet20", "--batch-size", "32", "--accumulate", "4", "--trace", "none"]
PAIR = ["--nodes", "2", "--ranks-per-node", "1"]
ALONE = ["--nodes", "1", "--ranks-per-node", "1"]
STOPPED = 75


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def awaited(condition, job: subprocess.Popen, what: str) -> None:
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert job.poll() is None, f"ended with {job.returncode} before: {what}"
        assert time.monotonic() < deadline, f"not within {LIMIT} s: {what}"
        time.sleep(0.01)


def heeds(pid: int, number: int) -> bool:
    """Has the process a handler for the signal?"""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def end(job: subprocess.Popen) -> None:
    job.kill()
    job.wait()
    for pipe in (job.stdout, job.stderr):
        if pipe:
            pipe.close()


class Case(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="daso_stop_")
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.out = self.folder / "run"

    def begin(self, *words: str, before: tuple[str, ...] = (), **options) -> subprocess.Popen:
        job = subprocess.Popen([*before, DASO, *words], text=True, **{
            "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options})
        self.addCleanup(end, job)
        return job

    def train(self, *flags: str, **options) -> subprocess.Popen:
        return self.begin("train", "--out", str(self.out), "--epochs", "200", *flags, **options)

    def await_training(self, job: subprocess.Popen) -> None:
        metrics = self.out / "metrics.jsonl"
        awaited(lambda: metrics.exists() and metrics.read_text(), job, "the first step")

    def ended(self, job: subprocess.Popen, code: int) -> str:
        """Returns what it said on standard error."""
        self.output, errors = job.communicate(timeout=LIMIT)
        self.assertEqual(job.returncode, code, errors)
        return errors

    def summary(self) -> dict:
        return json.loads((self.out / "summary.json").read_text())

    def checkpoints(self) -> list[pathlib.Path]:
        return list(self.out.glob("checkpoints/*/manifest.json"))


class Signals(Case):
    def test_a_stopped_run_has_a_code_of_its_own(self):
        for number, shape in ((signal.SIGTERM, PAIR), (signal.SIGINT, PAIR), (signal.SIGUSR1, PAIR),
                              (signal.SIGTERM, ALONE), (signal.SIGUSR1, ALONE)):
            with self.subTest(number=number, shape=shape):
                job = self.train(*QUICK, *shape)
                self.await_training(job)
                job.send_signal(number)
                errors = self.ended(job, STOPPED)
                self.assertEqual(errors.count(f"told to stop by signal {number:d}"), 1, errors)
                self.assertIn("what was trained is saved, within two steps or 10 s", errors)
                self.assertEqual(len(errors.splitlines()), 1, errors)
                self.assertEqual((self.summary()["finished"], self.summary()["exit"]), (False, STOPPED))
                self.assertTrue(self.checkpoints())
                shutil.rmtree(self.out)

    def test_it_goes_on_and_finishes(self):
        job = self.train(*QUICK, *PAIR)
        self.await_training(job)
        job.send_signal(signal.SIGTERM)
        self.ended(job, STOPPED)
        epochs = self.summary()["epochs"] + 1
        self.ended(self.begin("train", "--resume", "--out", str(self.out), "--epochs", str(epochs)), 0)
        self.assertEqual((self.summary()["finished"], self.summary()["exit"]), (True, 0))

    def test_another_code_can_be_asked_for(self):
        job = self.train(*QUICK, *PAIR, "--stopped-exit", "0")
        self.await_training(job)
        job.send_signal(signal.SIGTERM)
        self.ended(job, 0)
        self.assertFalse(self.summary()["finished"])
        self.assertIn("--stopped-exit", self.ended(self.train(*QUICK, *PAIR, "--stopped-exit", "126"), 2))

    def test_slow_steps_are_not_waited_for(self):
        """Not for sixteen of them, as for quick ones: two, from the one in which the signal comes."""
        job = self.train(*SLOW, *PAIR)
        self.await_training(job)  # after the first step
        job.send_signal(signal.SIGTERM)
        self.ended(job, STOPPED)
        self.assertLessEqual(self.summary()["steps"], 6)
        self.assertTrue(self.checkpoints())

    def test_signals_that_come_together_are_one(self):
        """As timeout(1) sends them: to its child and to the child's group."""
        for shape in (PAIR, ALONE):
            with self.subTest(shape=shape):
                job = self.train(*QUICK, *shape, process_group=0)
                self.await_training(job)
                os.kill(job.pid, signal.SIGTERM)
                os.killpg(job.pid, signal.SIGTERM)
                os.kill(job.pid, signal.SIGINT)
                self.ended(job, STOPPED)
                self.assertTrue(self.checkpoints())
                shutil.rmtree(self.out)

    def test_a_later_one_ends_at_once(self):
        """The step of these is longer than the second after which a signal is another one."""
        slower = [*SLOW, "--accumulate", "32", *ALONE]
        slower.remove("--accumulate")
        slower.remove("4")
        job = self.train(*slower)
        awaited(lambda: heeds(job.pid, signal.SIGTERM) and (self.out / "config.toml").exists(), job, "training")
        noted = time.monotonic()
        deadline = noted + LIMIT
        while job.poll() is None:
            self.assertLess(time.monotonic(), deadline)
            job.send_signal(signal.SIGTERM)
            time.sleep(0.3)
        self.assertIn(job.wait(), (-signal.SIGTERM, STOPPED))
        if job.returncode == -signal.SIGTERM:
            self.assertGreater(time.monotonic() - noted, 1)
            self.assertFalse(self.checkpoints())

    def test_before_training_there_is_nothing_to_save(self):
        port = free_port()
        variables = {**os.environ, "RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        job = self.train(*QUICK, env=variables)  # its peer never comes
        awaited(lambda: heeds(job.pid, signal.SIGTERM), job, "a handler")
        job.send_signal(signal.SIGTERM)
        errors = self.ended(job, STOPPED)
        self.assertIn("before training began: there was nothing to save", errors)
        self.assertEqual(len(errors.splitlines()), 1, errors)

    def test_before_training_under_a_launcher(self):
        job = self.train(*QUICK, *PAIR, "--node-index", "0", "--rendezvous", f"127.0.0.1:{free_port()}")
        children = pathlib.Path(f"/proc/{job.pid}/task/{job.pid}/children")
        awaited(lambda: len(children.read_text().split()) == 2, job, "a guardian and a rank")
        job.send_signal(signal.SIGTERM)
        self.ended(job, STOPPED)


class Launchers(Case):
    def test_a_killed_launcher_is_a_lost_node(self):
        flags = [*QUICK, *PAIR, "--rendezvous", f"127.0.0.1:{free_port()}", "--grace", "2"]
        first = self.train(*flags, "--node-index", "0")
        second = self.train(*flags, "--node-index", "1", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.await_training(first)
        second.kill()
        errors = self.ended(first, 3)
        self.assertIn("node 1", errors)

    def test_a_rank_whose_launcher_is_gone_ends(self):
        """torchrun's agent, here a process that starts one rank and waits."""
        variables = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                     "MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1"}
        first = self.train(*QUICK, env={**variables, "RANK": "0"})
        agent = self.train(*QUICK, before=("sh", "-c", '"$@"; true', "sh"),
                           env={**variables, "RANK": "1", "LOCAL_RANK": "0", "TORCHELASTIC_RUN_ID": "none"})
        self.await_training(first)
        agent.kill()
        self.assertIn("has lost its launcher: torchrun", self.ended(first, 3))

    def test_a_run_in_the_background_outlives_its_shell(self):
        flags = " ".join([*QUICK, *ALONE, "--epochs", "3", "--out", str(self.out)])
        subprocess.run(["sh", "-c", f"{DASO} train {flags} >/dev/null 2>&1 &"], check=True, timeout=LIMIT)
        deadline = time.monotonic() + LIMIT
        while not (self.out / "summary.json").exists():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        self.assertTrue(self.summary()["finished"])

    def test_mpirun_gets_no_bars(self):
        if not shutil.which("mpirun"):
            self.skipTest("there is no mpirun")
        variables = {name: value for name, value in os.environ.items() if not name.startswith("OMPI_")}
        job = self.begin("train", *QUICK, "--epochs", "20", "--out", str(self.out), env=variables,
                         before=("mpirun", "-n", "1", *(("--allow-run-as-root",) if os.geteuid() == 0 else ())))
        self.ended(job, 0)
        self.assertIn("epoch  20 of 20", self.output)
        self.assertNotIn("\r", self.output.replace("\r\n", "\n"))
        self.assertNotIn("\033", self.output)


class Means(Case):
    def test_a_closed_standard_output_hangs_nobody(self):
        for shape in (PAIR, ALONE):
            with self.subTest(shape=shape):
                job = self.begin("train", *QUICK, *shape, "--epochs", "1", "--out", str(self.out),
                                 before=("sh", "-c", '"$@" >&-', "sh"))
                errors = self.ended(job, 1)
                self.assertIn("standard output could not be written", errors)
                self.assertTrue(self.summary()["finished"])
                shutil.rmtree(self.out)

    def test_lost_output_is_no_success(self):
        self.ended(self.begin("train", *QUICK, *PAIR, "--epochs", "1", "--out", str(self.out)), 0)
        with open("/dev/full", "w") as full:
            for words in (["eval", str(self.out), *ALONE], ["eval", str(self.out)], ["schedule"], ["--help"],
                          ["doctor"], ["top", "--once", str(self.out)]):
                with self.subTest(words=words):
                    errors = self.ended(self.begin(*words, stdout=full), 1)
                    self.assertRegex(errors, r"^daso: standard output could not be written( \(No space left on device\))?; what was printed is lost\n$")

    def test_a_reader_may_leave(self):
        job = self.begin("train", *QUICK, *PAIR, "--epochs", "3", "--out", str(self.out), stderr=subprocess.DEVNULL)
        job.stdout.close()
        self.assertEqual(job.wait(timeout=LIMIT), 0)

    def test_few_open_files_are_named_and_counted(self):
        errors = self.ended(self.train(*QUICK, *PAIR, before=("prlimit", "--nofile=34:34")), 2)
        self.assertIn("needs up to 36 open files and connections, the limit is 34; raise it (ulimit -n 36)", errors)
        # One that the process may raise itself is.
        self.ended(self.begin("train", *QUICK, *PAIR, "--epochs", "1", "--out", str(self.out),
                              before=("prlimit", "--nofile=34:512")), 0)

    def test_few_threads_are_named_and_counted(self):
        if os.geteuid() != 0:
            self.skipTest("needs root, to become a user who has no other processes")
        somebody = 54321
        os.chown(self.folder, somebody, somebody)
        if subprocess.run([DASO, "--version"], user=somebody, capture_output=True).returncode != 0:
            self.skipTest("another user may not run the program")
        # Enough for one of the ranks, not for both; and hardly any.
        for limit in (60, 24, 5):
            with self.subTest(limit=limit):
                def become_somebody():
                    resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))
                    os.setgid(somebody)
                    os.setuid(somebody)

                errors = self.ended(self.train(*QUICK, *PAIR, preexec_fn=become_somebody, cwd=self.folder), 2)
                self.assertRegex(errors, r"^daso: a job of 2 ranks on this machine needs up to 80 threads, only \d+ could be started; raise the limit")
                self.assertIn(f"ulimit -u is {limit}", errors)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
