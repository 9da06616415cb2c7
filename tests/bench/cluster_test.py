# SPDX-License-Identifier: Apache-2.0
"""The test bed: nodes made of namespaces, their links, and ranks on them. Needs root.

Run as: cluster_test.py DASO CONFORMANCE_JOB FAULT_PROBE
"""
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import clean_end

DASO, CONFORMANCE, PROBE = sys.argv[1:4]
FOLDER = pathlib.Path(__file__).resolve().parent.parent.parent / "bench" / "cluster"
TOOL = str(FOLDER / "daso-cluster")
sys.path.insert(0, str(FOLDER))
import system

STATE = pathlib.Path("/run/daso-cluster")
NAME = f"test{os.getpid()}"
OTHER = NAME + "b"
LIMIT = 60    # seconds, of everything that should take much less
ROUNDS = "1000000"  # of a probe that is not to end by itself


def tool(*words: str, expect: int = 0) -> str:
    done = subprocess.run([TOOL, *words], text=True, capture_output=True, timeout=LIMIT)
    if done.returncode != expect:
        raise AssertionError(f"{words} gave {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def wait_until(holds, what: str):
    deadline = time.monotonic() + LIMIT
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {LIMIT} s: {what}")
        time.sleep(0.02)


def processes_naming(word: str) -> list[int]:
    """The numbers of those in whose arguments the word occurs, "" for all."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            text = (entry / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
        except OSError:
            continue
        if word in text:
            found.append(int(entry.name))
    return found


def networks(processes: list[int]) -> set[int]:
    """The network namespaces of processes, besides our own."""
    found = set()
    for pid in processes:
        try:
            found.add(os.stat(f"/proc/{pid}/ns/net").st_ino)
        except OSError:
            continue
    return found - {os.stat("/proc/self/ns/net").st_ino}


def devices() -> set[str]:
    return set(os.listdir("/sys/class/net"))


class ClusterCase(unittest.TestCase):
    """Every test leaves nothing behind, whatever happens in it."""

    def setUp(self):
        self.name = NAME
        self.addCleanup(tool, "down", "--name", self.name)

    def up(self, *words: str) -> str:
        return tool("up", "--name", self.name, *words)

    def call(self, command: str, *words: str, expect: int = 0) -> str:
        return tool(command, "--name", self.name, *words, expect=expect)

    def nodes(self) -> list[dict]:
        return json.loads(self.call("status", "--json"))["nodes"]

    def start(self, *words: str, **options) -> subprocess.Popen:
        process = subprocess.Popen(words, text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, **options)
        self.addCleanup(process.communicate, timeout=LIMIT)
        self.addCleanup(process.kill)
        return process

    def measure(self, server: int, client: int, megabytes: float) -> dict:
        probe = ["python3", str(FOLDER / "link_probe.py")]
        serving = self.start(TOOL, "exec", "--name", self.name, str(server), "--", *probe, "serve")
        ready, _, _ = select.select([serving.stdout], [], [], LIMIT)
        self.assertTrue(ready, f"no word of the server within {LIMIT} s")
        self.assertEqual(serving.stdout.readline(), "ready\n")
        shown = self.call("exec", str(client), "--", *probe, "measure", f"{self.name}-n{server}",
                          str(megabytes))
        self.assertEqual(serving.wait(LIMIT), 0)
        return json.loads(shown)

    def start_job(self, nodes: int) -> subprocess.Popen:
        """Ranks that talk without end; returns when they do."""
        job = self.start(DASO, "run", "--cluster", self.name, "--nodes", str(nodes),
                         "--ranks-per-node", "1", "--", PROBE, ROUNDS,
                         env={**os.environ, "DASO_TEST_TIMEOUT": "3"})

        def ranks_talk() -> bool:
            self.assertIsNone(job.poll(), "the job has ended")
            shown = self.call("exec", str(nodes - 1), "--", "ss", "-Htn", "state", "established")
            return len(shown.splitlines()) >= 2  # the store's connection, and Gloo's

        wait_until(ranks_talk, "the ranks talk")
        return job


class Life(ClusterCase):
    def test_down_leaves_nothing(self):
        before = devices()
        self.up("--nodes", "3", "--rate", "1gbit", "--delay", "1ms", "--loss", "0.1%")
        self.assertEqual(devices(), before)  # all of it exists elsewhere
        made = networks(processes_naming(f"node {self.name}"))
        self.assertEqual(len(made), 4)  # three nodes and the switch
        self.assertEqual(len(processes_naming(f"{self.name}/control")), 2)  # itself, and nsenter
        self.assertIn("down", self.call("down"))
        self.assertEqual(devices(), before)
        self.assertFalse(made & networks(processes_naming("")))
        self.assertEqual(processes_naming(self.name), [])
        self.assertFalse((STATE / self.name).exists())
        self.assertIn("there is none", self.call("down"))

    def test_killed_up_leaves_nothing_after_down(self):
        for first_processes in (1, 4, 8):  # two for each of three nodes and the switch
            words = [TOOL, "up", "--name", self.name, "--nodes", "3", "--rate", "1gbit"]
            making = self.start(*words)
            wait_until(lambda: len(processes_naming(f"node {self.name}")) >= first_processes,
                       "the cluster is half made")
            made = networks(processes_naming(f"node {self.name}"))
            making.kill()
            making.wait(LIMIT)
            self.assertIn("exists already", tool(*words[1:], expect=2))
            self.call("down")
            self.assertFalse(made & networks(processes_naming("")))
            self.assertEqual(processes_naming(self.name), [])
            self.assertFalse((STATE / self.name).exists())

    def test_clusters_have_names_and_addresses_of_their_own(self):
        self.addCleanup(tool, "down", "--name", OTHER)
        self.up("--nodes", "1")
        self.assertIn("exists already", self.call("up", "--nodes", "1", expect=2))
        tool("up", "--name", OTHER, "--nodes", "2")
        there = json.loads(tool("status", "--name", OTHER, "--json"))["nodes"]
        self.assertNotEqual(self.nodes()[0]["address"], there[0]["address"])
        self.call("down")
        self.assertEqual(there, json.loads(tool("status", "--name", OTHER, "--json"))["nodes"])

    def test_a_command_that_hangs_is_refused_by_its_name(self):
        with self.assertRaisesRegex(system.Refusal, "cannot wait: no end within 1 s of: sleep 600"):
            system.run(["sleep", "600"], "wait", limit=1)

    def test_wrong_use_is_refused(self):
        for words in (("--nodes", "0"), ("--nodes", "2", "--rate", "fast"),
                      ("--nodes", "2", "--delay", "200"), ("--nodes", "2", "--loss", "101"),
                      ("--nodes", "2", "--congestion", "none-such")):
            self.call("up", *words, expect=2)
            self.assertFalse((STATE / self.name).exists(), words)
        self.assertIn("there is no cluster", self.call("status", expect=2))
        self.up("--nodes", "1")
        self.assertIn("no node 1", self.call("cut", "1", expect=2))


class Links(ClusterCase):
    def test_rate_and_delay_are_what_was_asked_for(self):
        self.up("--nodes", "2", "--rate", "100mbit", "--delay", "1ms")
        found = self.measure(0, 1, megabytes=5)
        self.assertGreater(found["megabits_per_second"], 80)  # headers take 4 %
        self.assertLess(found["megabits_per_second"], 102)
        self.assertGreater(found["round_trip_us"], 1900)
        self.assertLess(found["round_trip_us"], 5000)  # a busy machine wakes up late

        self.call("set", "all", "--delay", "0")
        self.call("set", "1", "--rate", "20mbit")
        found = self.measure(0, 1, megabytes=1)
        self.assertGreater(found["megabits_per_second"], 16)
        self.assertLess(found["megabits_per_second"], 21)
        self.assertLess(found["round_trip_us"], 1900)
        self.assertEqual([(node["rate"], node["delay_us"]) for node in self.nodes()],
                         [(100_000_000, 0), (20_000_000, 0)])

    def test_loss_drops_packets_until_it_is_set_to_0(self):
        self.up("--nodes", "2", "--loss", "2%")

        def dropped(node: int) -> list[int]:
            rules = self.call("exec", str(node), "--", "iptables", "-t", "raw", "-nvxL").splitlines()
            return [int(rule.split()[0]) for rule in rules if "DROP" in rule]

        self.measure(0, 1, megabytes=1)  # at least 200 packets arrive at each: 8 drops expected
        drops = [dropped(node) for node in range(2)]
        self.assertEqual([len(rules) for rules in drops], [1, 1])
        self.assertGreater(drops[0][0] + drops[1][0], 0)
        self.call("set", "all", "--loss", "0")
        self.assertEqual([dropped(node) for node in range(2)], [[], []])


class OnNodes(ClusterCase):
    def test_exec_is_on_another_machine(self):
        self.up("--nodes", "2")
        show = "hostname; pwd; ls /dev/shm; readlink /proc/self/ns/{pid,ipc,mnt,net,uts}; exit 7"
        shown = self.call("exec", "1", "--", "bash", "-c", show, expect=7).splitlines()
        self.assertEqual(shown[:2], [f"{self.name}-n1", os.getcwd()])
        self.assertEqual(len(shown), 7)  # nothing is in its /dev/shm
        ours = {os.readlink(f"/proc/self/ns/{kind}") for kind in ("pid", "ipc", "mnt", "net", "uts")}
        self.assertFalse(ours & set(shown))
        numbers = self.call("exec", "1", "--", "sh", "-c", "echo /proc/[0-9]*").split()
        self.assertIn("/proc/1", numbers)
        self.assertLess(len(numbers), 8)  # it sees its own processes only

    def test_ranks_run_on_the_nodes(self):
        self.up("--nodes", "2")
        done = subprocess.run([DASO, "run", "--cluster", self.name, "--nodes", "2",
                               "--ranks-per-node", "1", "--", CONFORMANCE, "gloo"],
                              text=True, capture_output=True, timeout=LIMIT)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("conforms with 2 ranks", done.stdout)
        done = subprocess.run([DASO, "run", "--cluster", self.name, "--nodes", "2", "--",
                               "hostname"], text=True, capture_output=True, timeout=LIMIT)
        self.assertEqual(done.stdout, f"{self.name}-n0\n")
        self.assertIn(f"[1.0] {self.name}-n1\n", done.stderr)

    def test_what_cannot_be_is_refused(self):
        done = subprocess.run([DASO, "run", "--cluster", self.name, "--", "true"], text=True,
                              capture_output=True, timeout=LIMIT)
        self.assertEqual(done.returncode, 2)
        self.assertIn("there is no cluster", done.stderr)
        self.up("--nodes", "2")
        for flags, reason in ((["--nodes", "3"], "has 2"), (["--backend", "mpi"], "use gloo"),
                              (["--interface", "eth0"], "leave")):
            done = subprocess.run([DASO, "run", "--cluster", self.name, *flags, "--", "true"],
                                  text=True, capture_output=True, timeout=LIMIT)
            self.assertEqual(done.returncode, 2, flags)
            self.assertIn(reason, done.stderr)


class Faults(ClusterCase):
    def test_a_cut_node_ends_the_job_with_exit_3(self):
        self.up("--nodes", "2")
        job = self.start_job(2)
        self.call("cut", "1")
        self.assertEqual([node["state"] for node in self.nodes()], ["up", "cut"])
        _, error = job.communicate(timeout=LIMIT)
        self.assertEqual(job.returncode, 3, error)
        self.assertIn("lost peer", error)
        self.call("restore", "1")
        self.measure(0, 1, megabytes=0.1)

    def test_a_stopped_node_ends_the_job_and_takes_no_other(self):
        self.up("--nodes", "2")
        job = self.start_job(2)
        self.call("stop-node", "1")
        _, error = job.communicate(timeout=LIMIT)
        self.assertEqual(job.returncode, 3, error)
        self.assertIn("rank 1 (node1.0)", error)
        self.assertEqual([node["state"] for node in self.nodes()], ["up", "stopped"])
        done = subprocess.run([DASO, "run", "--cluster", self.name, "--nodes", "2", "--", "true"],
                              text=True, capture_output=True, timeout=LIMIT)
        self.assertEqual(done.returncode, 2)
        self.assertIn("node 1", done.stderr)

    def test_a_killed_launcher_leaves_no_rank(self):
        self.up("--nodes", "2")
        job = self.start_job(2)
        self.assertEqual([node["processes"] for node in self.nodes()], [1, 1])
        job.kill()
        wait_until(lambda: [node["processes"] for node in self.nodes()] == [0, 0],
                   "the ranks end")

    def test_signals_reach_the_ranks(self):
        self.up("--nodes", "2")
        job = self.start_job(2)
        job.send_signal(signal.SIGINT)
        _, error = job.communicate(timeout=LIMIT)
        self.assertEqual(job.returncode, 130, error)
        self.assertEqual([node["processes"] for node in self.nodes()], [0, 0])


def clean_up() -> None:
    for name in (NAME, OTHER):
        tool("down", "--name", name)


if __name__ == "__main__":
    clean_end.main(clean_up)
