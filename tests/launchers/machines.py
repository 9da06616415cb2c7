# SPDX-License-Identifier: Apache-2.0
"""Two machines: nodes of a cluster made of namespaces (docs/testbed.md), with daemons of their own.

Each has its own network, host name, processes and /dev/shm; the files are those of this machine,
like a shared disk.
"""
import json
import os
import pathlib
import shutil
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLUSTER = ROOT / "bench/cluster/daso-cluster"
STATE = pathlib.Path("/run/daso-cluster")
LIMIT = 60  # seconds, of everything that should take much less
COUNT = 2


def why_none() -> str | None:
    """Why there can be no machines here; root in a container often may not make namespaces."""
    if os.geteuid() != 0:
        return "machines are made of namespaces, which takes root"
    tried = subprocess.run(["unshare", "--net", "--mount", "--pid", "--fork", "true"], text=True,
                           capture_output=True, timeout=LIMIT)
    return None if tried.returncode == 0 else f"no namespaces: {tried.stderr.strip()}"


def await_that(holds, what: str, limit: float = LIMIT) -> None:
    deadline = time.monotonic() + limit
    while not holds():
        assert time.monotonic() < deadline, f"not within {limit} s: {what}"
        time.sleep(0.05)  # others need the cores


def network_of(pid: int | str) -> int | None:
    """The number of a process's network namespace."""
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino
    except OSError:
        return None  # it has ended


class Machines:
    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.name = f"launch{os.getpid()}"
        self.hosts = [f"{self.name}-n{i}" for i in range(COUNT)]
        self.networks: list[int] = []
        self.started: list[subprocess.Popen] = []

    def up(self) -> None:
        self.call("up", "--nodes", str(COUNT))
        shown = (STATE / self.name / "cluster.json").read_text()
        # slurmd and podman look for control groups even where they are told to use none.
        for node in range(COUNT):
            done = self.run(node, ["mount", "-t", "tmpfs", "tmpfs", "/sys/fs/cgroup"])
            assert done.returncode == 0, done.stderr
        self.networks = [node["network"] for node in json.loads(shown)["nodes"]]

    def down(self) -> None:
        self.call("down")
        for process in self.started:
            process.wait(LIMIT)
        self.started.clear()

    def stop(self, node: int) -> None:
        """Like a loss of power."""
        self.call("stop-node", str(node))

    def call(self, command: str, *words: str) -> None:
        done = subprocess.run([CLUSTER, command, "--name", self.name, *words], text=True,
                              capture_output=True, timeout=LIMIT)
        assert done.returncode == 0, f"daso-cluster {command}: {done.stderr}"

    def on(self, node: int, words: list) -> list[str]:
        """The words that run a command on a machine."""
        return [str(word) for word in (CLUSTER, "exec", "--name", self.name, node, "--", *words)]

    def start(self, node: int, words: list, log: str, **variables: str) -> subprocess.Popen:
        with open(self.folder / log, "a") as file:
            process = subprocess.Popen(self.on(node, words), stdin=subprocess.DEVNULL, stdout=file,
                                       stderr=subprocess.STDOUT, cwd=self.folder,
                                       env={**os.environ, **variables})
        self.started.append(process)
        return process

    def run(self, node: int, words: list, **variables: str) -> subprocess.CompletedProcess:
        return subprocess.run(self.on(node, words), text=True, capture_output=True, timeout=LIMIT,
                              cwd=self.folder, env={**os.environ, **variables})

    def node_of(self, pid: int) -> int | None:
        network = network_of(pid)
        return self.networks.index(network) if network in self.networks else None


def signal_inside(process: subprocess.Popen, number: int) -> None:
    """To the program that was started on a machine; `process` is the one that waits for it here."""
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
    await_that(lambda: children.read_text().split(), "the program has started")
    os.kill(int(children.read_text().split()[0]), number)


class Ssh:
    """An sshd on each machine and the words by which others come in, without a password."""

    def __init__(self, machines: Machines):
        self.machines = machines
        self.folder = machines.folder / "ssh"
        self.config = self.folder / "config"

    def up(self) -> None:
        if not self.folder.exists():
            self.make_keys()
        os.makedirs("/run/sshd", exist_ok=True)
        for node in range(COUNT):
            self.machines.start(node, [shutil.which("sshd") or "/usr/sbin/sshd", "-D", "-e", "-f",
                                       self.folder / "sshd_config"], f"sshd{node}.log")
        for host in self.machines.hosts:
            await_that(lambda: self.machines.run(
                0, ["ssh", "-F", self.config, host, "true"]).returncode == 0, f"ssh to {host}")

    def make_keys(self) -> None:
        self.folder.mkdir()
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
                            self.folder / name], check=True, timeout=LIMIT)
        shutil.copy(self.folder / "user.pub", self.folder / "authorized")
        (self.folder / "sshd_config").write_text(
            f"HostKey {self.folder}/host\nAuthorizedKeysFile {self.folder}/authorized\n"
            "PermitRootLogin yes\nStrictModes no\nUsePAM no\nPidFile none\nMaxStartups 100\n")
        self.config.write_text(
            f"Host *\n  IdentityFile {self.folder}/user\n  StrictHostKeyChecking no\n"
            "  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n  BatchMode yes\n")

