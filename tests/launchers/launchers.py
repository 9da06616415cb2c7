# SPDX-License-Identifier: Apache-2.0
"""The launchers: what each needs, how it starts a training on two machines, how it is told to stop.

`start` gives the processes whose exit codes the user of the launcher sees, the first of all first.
"""
import os
import shutil
import signal
import subprocess

from machines import COUNT, Machines, Ssh, signal_inside
from training import RANKS_PER_NODE, Training

PORT = 29511
WORLD = COUNT * RANKS_PER_NODE
# mpirun looks for silent machines after 300 s; later than the ranks it would not find any, since
# the system does not look while something is on its way.
KEEPALIVE = ["--mca", "oob_tcp_keepalive_time", "3", "--mca", "oob_tcp_keepalive_intvl", "1",
             "--mca", "oob_tcp_keepalive_probes", "3"]


def without(*programs: str) -> str | None:
    """Why a launcher cannot be tried here."""
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    missing = [name for name in programs if not shutil.which(name, path=path)]
    return f"there is no {' and no '.join(missing)}" if missing else None


class Launcher:
    title: str                  # as the table shows it
    stopped_codes = {75}        # what it may end with after a stop
    waits_for_lost = False      # itself, not the ranks: for a machine that is silent
    requeues = False            # starts a training again by itself that was told to stop

    def __init__(self, machines: Machines, daso: str, python: str):
        self.machines = machines
        self.daso = daso
        self.python = python

    def missing(self) -> str | None:
        return None

    def up(self) -> None:
        """The daemons that it needs, on machines that have just come up."""

    def start(self, training: Training, words: list[str], log: str) -> list[subprocess.Popen]:
        raise NotImplementedError

    def stop(self, started: list[subprocess.Popen]) -> None:
        signal_inside(started[0], signal.SIGTERM)


class Own(Launcher):
    title = "`daso train` on each"

    def start(self, training, words, log):
        flags = ["--nodes", COUNT, "--ranks-per-node", RANKS_PER_NODE, "--job-token", "try",
                 "--rendezvous", f"{self.machines.hosts[0]}:{PORT}"]
        return [self.machines.start(node, [self.daso, *words, *flags, "--node-index", node], log)
                for node in range(COUNT)]


class Hosts(Launcher):
    title = "`daso train --hosts`"

    def missing(self):
        return without("sshd", "ssh")

    def up(self):
        self.ssh = Ssh(self.machines)
        self.ssh.up()

    def start(self, training, words, log):
        return [self.machines.start(0, [
            self.daso, *words, "--hosts", ",".join(self.machines.hosts), "--ssh",
            f"ssh -F {self.ssh.config}", "--ranks-per-node", RANKS_PER_NODE], log)]


class OpenMpi(Hosts):
    title = "mpirun (Open MPI)"

    def missing(self):
        return without("sshd", "ssh") or without("mpirun") or self.other_mpirun()

    def other_mpirun(self):
        shown = subprocess.run(["mpirun", "--version"], text=True, capture_output=True, timeout=20)
        return None if "Open MPI" in shown.stdout else "mpirun is not that of Open MPI"

    def start(self, training, words, log):
        hosts = self.machines.folder / "hosts"
        hosts.write_text("".join(f"{host} slots={RANKS_PER_NODE}\n" for host in self.machines.hosts))
        return [self.machines.start(0, [
            "mpirun", "--allow-run-as-root", "-n", WORLD, "--hostfile", hosts, "--oversubscribe",
            "--bind-to", "none", "--mca", "plm_rsh_args", f"-F {self.ssh.config}",
            *KEEPALIVE, self.daso, *words], log)]

    def stop(self, started):
        # One second after a SIGTERM it would kill the ranks.
        signal_inside(started[0], signal.SIGUSR1)


class Mpich(OpenMpi):
    title = "mpiexec (MPICH)"
    waits_for_lost = True

    def missing(self):
        return without("sshd", "ssh") or without("mpiexec.hydra")

    def start(self, training, words, log):
        hosts = self.machines.folder / "hosts"
        hosts.write_text("".join(f"{host}:{RANKS_PER_NODE}\n" for host in self.machines.hosts))
        # It takes no words for ssh, but another name of it.
        ssh = self.machines.folder / "ssh-here"
        ssh.write_text(f"#!/bin/sh\nexec ssh -F {self.ssh.config} \"$@\"\n")
        ssh.chmod(0o755)
        return [self.machines.start(0, [
            "mpiexec.hydra", "-n", WORLD, "-f", hosts, "-launcher", "ssh", "-launcher-exec", ssh,
            self.daso, *words, "--rendezvous", f"{self.machines.hosts[0]}:{PORT}"], log)]


class Torchrun(Launcher):
    title = "torchrun"
    stopped_codes = {1}

    def missing(self):
        found = subprocess.run([self.python, "-c", "import torch.distributed.run"],
                               capture_output=True, timeout=120)
        return None if found.returncode == 0 else f"{self.python} has no torchrun"

    def start(self, training, words, log):
        return [self.machines.start(node, [
            self.python, "-m", "torch.distributed.run", "--nnodes", COUNT, "--nproc-per-node",
            RANKS_PER_NODE, "--rdzv-backend", "c10d", "--rdzv-endpoint",
            f"{self.machines.hosts[0]}:{PORT}", "--local-addr", self.machines.hosts[node],
            "--no-python", self.daso, *words], log)
            for node in range(COUNT)]
