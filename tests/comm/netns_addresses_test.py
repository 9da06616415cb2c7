# SPDX-License-Identifier: Apache-2.0
"""Machines, made of network namespaces, with several networks, names of their own and firewalls:
which address the ranks meet at, and what they say where they cannot. Needs root.

Run as: netns_addresses_test.py DASO FAULT_PROBE
"""
import json
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import clean_end

DASO, PROBE = sys.argv[1:3]
LIMIT = 6  # seconds, of every wait of a rank
PORT = 29578
NAMES = [f"dasoa{os.getpid()}-{i}" for i in range(2)]
LONGEST = 60  # seconds, of everything that should take much less
# What "ip netns exec" shows as /etc of a namespace.
ETC = pathlib.Path("/etc/netns")


def run(*command: str) -> str:
    return subprocess.run(command, check=True, text=True, capture_output=True,
                          timeout=LONGEST).stdout


def nodes_in(text: str) -> list:
    """The nodes of the doctor's JSON, around which notes may stand."""
    return json.loads(text[text.index("{"):text.rindex("}") + 1])["topology"]["nodes"]


class Machines(unittest.TestCase):
    def setUp(self):
        for i, name in enumerate(NAMES):
            run("ip", "netns", "add", name)
            self.addCleanup(run, "ip", "netns", "del", name)
            (ETC / name).mkdir(parents=True)
            self.addCleanup(shutil.rmtree, ETC / name)
            # The first devices lead nowhere: one has given itself an address, one is its machine's alone.
            for device, address in (("aaa0", f"169.254.9.{i + 1}/16"), ("bbb0", f"172.30.{i}.1/24")):
                run("ip", "-n", name, "link", "add", device, "type", "veth", "peer", "name", device + "-end")
                run("ip", "-n", name, "address", "add", address, "dev", device)
                run("ip", "-n", name, "link", "set", device, "up")
                run("ip", "-n", name, "link", "set", device + "-end", "up")
            run("ip", "-n", name, "link", "set", "lo", "up")
        run("ip", "link", "add", "eth0", "netns", NAMES[0], "type", "veth",
            "peer", "name", "eth0", "netns", NAMES[1])
        for i, name in enumerate(NAMES):
            run("ip", "-n", name, "address", "add", f"10.77.0.{i + 1}/24", "dev", "eth0")
            run("ip", "-n", name, "link", "set", "eth0", "up")
            # As Debian does it: a machine's own name is 127.0.1.1.
            hosts = [f"127.0.1.1 m{j}" if i == j else f"10.77.0.{j + 1} m{j}" for j in range(2)]
            (ETC / name / "hosts").write_text("127.0.0.1 localhost\n" + "\n".join(hosts) + "\n")
        for name in NAMES:
            self.await_link(name, "eth0")

    def await_link(self, name: str, device: str) -> None:
        """The kernel may take a second to see that both ends of a link are up."""
        deadline = time.monotonic() + LONGEST
        while "state UP" not in run("ip", "-n", name, "link", "show", device):
            self.assertLess(time.monotonic(), deadline, f"{device} of {name} does not come up")
            time.sleep(0.01)

    def start(self, machine: int, command: list, variables: dict) -> subprocess.Popen:
        process = subprocess.Popen(
            ["ip", "netns", "exec", NAMES[machine], *command], text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1", "DASO_TEST_TIMEOUT": str(LIMIT), **variables})
        self.addCleanup(process.communicate, timeout=LONGEST)
        self.addCleanup(process.kill)
        return process

    def start_by_srun(self, command: list, ranks: int = 3, more: dict = {}) -> list:
        """All but the last rank on the first machine, the last one on the second."""
        return [self.start(rank // (ranks - 1), command,
                           {"SLURM_PROCID": str(rank), "SLURM_STEP_NUM_TASKS": str(ranks),
                            "SLURM_LOCALID": str(rank % (ranks - 1)), "SLURM_STEP_ID": "0",
                            "SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_NODELIST": "m[0-1]", **more})
                for rank in range(ranks)]

    def start_by_pytorch(self, command: list, more: dict = {}) -> list:
        return [self.start(rank, command, {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "m0",
                                           "MASTER_PORT": str(PORT), **more}) for rank in range(2)]

    def ends(self, jobs: list, code: int) -> list:
        texts = []
        for job in jobs:
            output, error = job.communicate(timeout=LONGEST)
            self.assertEqual(job.returncode, code, output + error)
            texts.append(output + error)
        return texts

    def test_under_srun_the_own_name_of_rank_0_may_be_loopback(self):
        self.ends(self.start_by_srun([PROBE, "5"]), 0)

    def test_without_a_launcher_the_own_name_of_rank_0_may_be_loopback_where_a_device_is_named(self):
        texts = self.ends(self.start_by_pytorch([DASO, "doctor", "--json", "--timeout", str(LIMIT), "--interface", "eth0"]), 0)
        self.assertEqual([node["ranks"] for node in nodes_in(texts[0])], [[0], [1]])

    def test_machines_with_one_name_are_two_nodes(self):
        """Namespaces share the host's name; the ranks of each are a node, and it is said."""
        texts = self.ends(self.start_by_srun([DASO, "doctor", "--json", "--timeout", str(LIMIT)]), 0)
        name = os.uname().nodename
        nodes = nodes_in(texts[0])
        self.assertEqual([node["ranks"] for node in nodes], [[0, 1], [2]])
        self.assertEqual([node["name"] for node in nodes], [name, f"{name}-2"])
        self.assertIn(f"several machines are called '{name}'", texts[0])

    def test_a_device_that_the_meeting_place_is_not_on_is_refused(self):
        job = self.start_by_pytorch([DASO, "doctor", "--interface", "bbb0"],
                                    {"MASTER_ADDR": "10.77.0.1"})[0]
        error = self.ends([job], 2)[0]
        self.assertIn("the ranks are to meet at 10.77.0.1, which is 10.77.0.1 here, but network device bbb0 has "
                      "the address 172.30.0.1", error)

    def block(self, machine: int):
        """Lets through what goes to the store, and no other connection to this machine."""
        run("ip", "netns", "exec", NAMES[machine], "iptables", "-A", "INPUT", "-i", "eth0", "-p", "tcp",
            "--syn", "!", "--dport", str(PORT), "-j", "DROP")

    def test_a_firewall_is_named_by_the_pair_and_the_address(self):
        for blocked in ([0, 1], [0], [1]):
            for machine in blocked:
                self.block(machine)
            jobs = self.start_by_pytorch([PROBE, "5"], {"MASTER_ADDR": "10.77.0.1"})
            pair = r"rank (\d) \(\S+ on host \S+\) cannot reach rank (\d) \(\S+ on host \S+\) at 10\.77\.0\.(\d):\d+: "
            if len(blocked) == 1 and self.is_let_through(jobs):
                continue  # the connection is made in the other direction
            for text in self.ends(jobs, 3):
                self.assertRegex(text, pair)
                self.assertIn("--interface DEV", text)
            for machine in range(2):
                run("ip", "netns", "exec", NAMES[machine], "iptables", "-F")

    def is_let_through(self, jobs: list) -> bool:
        for job in jobs:
            job.wait(timeout=LONGEST)
        if any(job.returncode != 0 for job in jobs):
            return False
        for machine in range(2):
            run("ip", "netns", "exec", NAMES[machine], "iptables", "-F")
        return True

    def test_mpirun_meets_on_the_network_that_the_machines_share(self):
        if shutil.which("mpirun") is None:
            self.skipTest("there is no mpirun")
        folder = tempfile.mkdtemp(prefix="daso-mpirun-")
        self.addCleanup(shutil.rmtree, folder)
        agent = pathlib.Path(folder, "agent")  # stands in for ssh
        agent.write_text(f'#!/bin/sh\nmachine=${{1#m}}; shift\nexec ip netns exec dasoa{os.getpid()}-$machine sh -c "$*"\n')
        agent.chmod(agent.stat().st_mode | stat.S_IXUSR)
        only = ["--mca", "oob_tcp_if_include", "eth0", "--mca", "btl_tcp_if_include", "eth0", "--mca", "btl",
                "tcp,self"]
        job = self.start(0, ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--host",
                             "m0:1,m1:1", "--mca", "plm_rsh_agent", str(agent), *only, PROBE, "5"], {})
        self.ends([job], 0)


def clean_up() -> None:
    for name in NAMES:
        shutil.rmtree(ETC / name, ignore_errors=True)
    clean_end.remove_namespaces(NAMES)


if __name__ == "__main__":
    clean_end.main(clean_up)
