# SPDX-License-Identifier: Apache-2.0
"""`daso train --hosts`, with a program in ssh's place that runs commands on this machine: like ssh
it passes on neither signals nor its own end, only input, output and exit code.

Run as: hosts_test.py DASO
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "run"))
from kill_run import kill_run, processes_of

DASO = sys.argv[1]
LIMIT = 60  # seconds
STOPPED = 75
SSH = """#!/bin/sh
host=$1
shift
if [ "$host" = nowhere ]; then
  echo "ssh: connect to host nowhere port 22: No route to host" >&2
  exit 255
fi
exec 3<&0  # a shell's background has no input unless it is named
setsid sh -c "$*" <&3 3<&- &
wait $! 2>/dev/null  # the shell would tell of a kill, ssh does not
code=$?
[ $code -le 128 ] || exit 255  # the command was killed
exit $code
"""
JOB = ["--data", "synthetic:train=1024,test=64,size=8,channels=1", "--model", "mlp",
       "--batch-size", "16", "--ranks-per-node", "1", "--checkpoint-every", "50steps"]


def await_that(holds, what: str) -> None:
    deadline = time.monotonic() + LIMIT
    while not holds():
        assert time.monotonic() < deadline, f"not within {LIMIT} s: {what}"
        time.sleep(0.02)  # others need the cores


def parent(pid: int) -> int:
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


class Hosts(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="daso-hosts-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.ssh = self.folder / "reach"
        self.ssh.write_text(SSH)
        self.ssh.chmod(0o755)
        self.run_folder = self.folder / "it's a run"  # for shells to stumble over
        self.addCleanup(kill_run, self.run_folder)

    def start(self, *flags: str, hosts: str = "localhost,localhost", epochs: int = 2,
              on_failure: str = "stop"):
        words = [DASO, "train", "--hosts", hosts, "--ssh", str(self.ssh), *JOB, "--epochs",
                 str(epochs), "--out", str(self.run_folder), "--on-failure", on_failure, *flags]
        return subprocess.Popen(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                stdin=subprocess.DEVNULL)

    def end_of(self, job: subprocess.Popen, code: int) -> tuple[str, str]:
        printed, errors = job.communicate(timeout=LIMIT)
        self.assertEqual(job.returncode, code, f"{printed}{errors}")
        await_that(lambda: not processes_of(self.run_folder), "no process is left")
        return printed, errors

    def started(self, on_failure: str = "stop") -> subprocess.Popen:
        """A long training that has saved something."""
        job = self.start(epochs=100000, on_failure=on_failure)
        await_that(lambda: self.checkpoints() or job.poll() is not None, "a checkpoint")
        self.assertIsNone(job.poll())
        return job

    def launcher(self, node: int) -> int:
        """That of a host. Its guardian and its ranks have its words, too, and are its children."""
        words = f"\0--node-index\0{node}\0".encode()
        found = [pid for pid in processes_of(self.run_folder)
                 if words in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()]
        return next(pid for pid in found if parent(pid) not in found)

    def checkpoints(self) -> list:
        return sorted(self.run_folder.glob("checkpoints/*/manifest.json"))

    def test_trains_and_prints_what_rank_0_prints(self):
        printed, _ = self.end_of(self.start("--json"), 0)
        summary = json.loads(printed)
        self.assertEqual((summary["nodes"], summary["ranks"]), (2, 2))

    def test_a_signal_reaches_all_ranks_and_the_run_goes_on(self):
        job = self.started()
        job.send_signal(signal.SIGTERM)
        printed, errors = self.end_of(job, STOPPED)
        self.assertEqual(errors.count("told to stop by signal 15"), 1, errors)
        self.assertIn(f"--hosts localhost,localhost --ssh {self.ssh}\n", printed)
        saved = self.checkpoints()[-1]
        job = self.start("--resume", epochs=100000)
        await_that(lambda: self.checkpoints()[-1] > saved or job.poll() is not None, "it goes on")
        job.send_signal(signal.SIGTERM)
        self.end_of(job, STOPPED)

    def test_ranks_save_and_end_when_the_client_is_killed(self):
        job = self.started()
        before = self.checkpoints()[-1]
        job.kill()
        await_that(lambda: not processes_of(self.run_folder), "no process is left")
        job.communicate(timeout=LIMIT)
        self.assertGreater(self.checkpoints()[-1], before)

    def test_a_host_out_of_reach_is_named_and_ends_the_job(self):
        _, errors = self.end_of(self.start(hosts="localhost,nowhere"), 3)
        self.assertIn("daso: host nowhere could not be reached or was lost: ssh ended with exit "
                      "code 255: ssh: connect to host nowhere port 22: No route to host", errors)
        for misleading in ("a checkpoint is saved", "exit code 75", "has not said"):
            self.assertNotIn(misleading, errors)

    def test_a_signal_to_the_launcher_on_a_host_is_told_by_it(self):
        job = self.started()
        os.kill(self.launcher(1), signal.SIGTERM)
        _, errors = self.end_of(job, STOPPED)
        self.assertEqual(errors.count("localhost: daso: told to stop by signal 15"), 1, errors)

    def test_a_killed_launcher_is_a_lost_host(self):
        job = self.started()
        os.kill(self.launcher(1), signal.SIGKILL)
        _, errors = self.end_of(job, 3)
        self.assertIn("daso: host localhost could not be reached or was lost: ssh ended with exit "
                      "code 255: it said nothing, as when the command there is killed", errors)

    def test_the_code_of_a_host_is_that_of_the_job(self):
        _, errors = self.end_of(self.start("--init", str(self.folder / "none.safetensors")), 2)
        self.assertIn("none.safetensors", errors)

    def test_a_killed_rank_is_a_lost_peer(self):
        job = self.started()
        ranks = [pid for pid in processes_of(self.run_folder)
                 if b"\0RANK=1\0" in pathlib.Path(f"/proc/{pid}/environ").read_bytes()]
        self.assertEqual(len(ranks), 1)
        os.kill(ranks[0], signal.SIGKILL)
        self.end_of(job, 3)

    def test_a_killed_rank_comes_back_where_the_run_goes_on(self):
        job = self.started(on_failure="continue")
        ranks = [pid for pid in processes_of(self.run_folder)
                 if b"\0RANK=1\0" in pathlib.Path(f"/proc/{pid}/environ").read_bytes()]
        os.kill(ranks[0], signal.SIGKILL)
        views = self.run_folder / "membership.jsonl"
        await_that(lambda: '"joined":[1]' in views.read_text().replace(" ", ""), "its return")
        job.send_signal(signal.SIGTERM)
        self.end_of(job, STOPPED)

    def test_refuses_what_does_not_fit(self):
        for flags, reason in (
            (["--hosts", "a,,b"], "'' is no host"),
            (["--hosts", "-oProxyCommand=x"], "is no host"),
            (["--hosts", "a,b", "--nodes", "3"], "--hosts a,b are 2 nodes, but the other flags "
             "ask for 3"),
            (["--hosts", "a,b", "--cluster", "c"], "--hosts and --cluster c"),
            (["--hosts", "a,b", "--backend", "mpi"], "mpirun --host a,b"),
            (["--hosts", "a", "--ssh", " "], "names no program"),
        ):
            done = subprocess.run([DASO, "train", *flags], text=True, capture_output=True,
                                  timeout=LIMIT)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(reason, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
