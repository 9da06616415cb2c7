# SPDX-License-Identifier: Apache-2.0
"""Two machines made of network namespaces, joined by a cable that can be cut. Needs root.

Run as: netns_test.py DASO FAULT_PROBE
"""
import os
import pathlib
import re
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import clean_end

DASO, PROBE = sys.argv[1:3]
LIMIT = 3  # seconds, of every operation
PORT = 29577
NAMES = [f"daso{os.getpid()}-{i}" for i in range(2)]
LONGEST = 60  # seconds, of everything that should take much less


def run(*command: str) -> str:
    return subprocess.run(command, check=True, text=True, capture_output=True,
                          timeout=LONGEST).stdout


class TwoMachines(unittest.TestCase):
    def setUp(self):
        self.names = NAMES
        for name in self.names:
            run("ip", "netns", "add", name)
            self.addCleanup(run, "ip", "netns", "del", name)
        run("ip", "link", "add", "eth0", "netns", self.names[0], "type", "veth",
            "peer", "name", "eth0", "netns", self.names[1])
        for i, name in enumerate(self.names):
            run("ip", "-n", name, "address", "add", f"10.77.0.{i + 1}/24", "dev", "eth0")
            run("ip", "-n", name, "link", "set", "eth0", "up")
            run("ip", "-n", name, "link", "set", "lo", "up")

    def start(self, index: int, *program: str, flags: tuple = ()) -> subprocess.Popen:
        command = ["ip", "netns", "exec", self.names[index], DASO, "run", "--nodes", "2",
                   "--ranks-per-node", "1", "--node-index", str(index),
                   "--rendezvous", f"10.77.0.1:{PORT}", "--job-token", "test", *flags,
                   "--", *program]
        process = subprocess.Popen(command, text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE,
                                   env={**os.environ, "DASO_TEST_TIMEOUT": str(LIMIT)})
        self.addCleanup(process.communicate, timeout=LONGEST)
        self.addCleanup(process.kill)
        return process

    def listening(self, index: int) -> set:
        """The addresses on which anything listens on a machine."""
        text = run("ip", "netns", "exec", self.names[index], "ss", "-Hltn")
        return {line.split()[3].rsplit(":", 1)[0] for line in text.splitlines()}

    def await_connections(self, index: int):
        """Waits until the ranks talk to each other: the store and Gloo have their connections."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            text = run("ip", "netns", "exec", self.names[index], "ss", "-Htn",
                       "state", "established", "dst", "10.77.0.1")
            ports = {int(line.split()[3].rsplit(":", 1)[1]) for line in text.splitlines()}
            if PORT in ports and len(ports) > 1:
                return
            time.sleep(0.05)
        self.fail("the ranks did not connect")

    def test_ranks_meet_and_listen_on_the_cable_only(self):
        jobs = [self.start(i, PROBE, "1000000") for i in range(2)]
        self.await_connections(1)
        self.assertEqual(self.listening(0), {"10.77.0.1"})
        self.assertLessEqual(self.listening(1), {"10.77.0.2"})
        for job in jobs:
            job.terminate()

    def test_a_job_ends_well_on_both_machines(self):
        jobs = [self.start(i, PROBE, "5") for i in range(2)]
        for job in jobs:
            output, error = job.communicate(timeout=60)
            self.assertEqual(job.returncode, 0, error)
        self.assertEqual(output, "")

    def test_a_cut_cable_becomes_an_error_on_both_sides(self):
        jobs = [self.start(i, PROBE, "1000000") for i in range(2)]
        self.await_connections(1)
        run("ip", "-n", self.names[1], "link", "set", "eth0", "down")
        cut = time.monotonic()
        texts = []
        for job in jobs:
            _, error = job.communicate(timeout=60)
            self.assertEqual(job.returncode, 3, error)
            texts.append(error)
        self.assertLess(time.monotonic() - cut, 20)  # limit, roll call, twice the grace time
        self.assertRegex(texts[0], r"rank 1 \(node1 on host .*did not answer the roll call")
        self.assertRegex(texts[1], re.escape(f"the store at 10.77.0.1:{PORT} "))

    def test_nobody_at_the_rendezvous_is_an_error_within_the_limit(self):
        begun = time.monotonic()
        job = self.start(1, PROBE, "5", flags=("--timeout", "2"))
        _, error = job.communicate(timeout=30)
        self.assertEqual(job.returncode, 3, error)
        self.assertIn(f"10.77.0.1:{PORT}", error)
        self.assertLess(time.monotonic() - begun, 10)


if __name__ == "__main__":
    clean_end.main(lambda: clean_end.remove_namespaces(NAMES))
