# SPDX-License-Identifier: Apache-2.0
"""A real Slurm on the two machines: munged for both, slurmctld on the first, slurmd on each."""
import os
import pathlib
import re
import shutil

from launchers import Launcher, without
from machines import COUNT, ROOT, await_that
from training import RANKS_PER_NODE

DAEMONS = ("munged", "slurmctld", "slurmd")


class Slurm(Launcher):
    title = "Slurm, `srun`"

    def missing(self):
        return without(*DAEMONS, "srun", "sbatch", "scancel", "scontrol", "squeue", "sinfo")

    def up(self):
        # All that an earlier cluster has left would be news of other machines.
        folder = self.machines.folder / "slurm"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o755)
        self.conf = folder / "slurm.conf"
        self.conf.write_text(self.configuration(folder))
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")
        key = folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        # One for both machines, since its socket is a file. Forced: the folder above is anybody's.
        self.machines.start(0, ["/usr/sbin/munged", "--foreground", "--force", "--key-file", key,
                                "--socket", folder / "munge", "--pid-file", folder / "munged.pid",
                                "--log-file", folder / "munged.log", "--seed-file",
                                folder / "munge.seed"], "munged.log")
        await_that((folder / "munge").exists, "munged has its socket")
        self.machines.start(0, ["/usr/sbin/slurmctld", "-D", "-i", "-f", self.conf], "slurmctld.log")
        for node, host in enumerate(self.machines.hosts):
            self.machines.start(node, ["/usr/sbin/slurmd", "-D", "-N", host, "-f", self.conf],
                                f"slurmd{node}.log")
        await_that(lambda: self.ask("sinfo", "-h", "-o", "%D %t") == f"{COUNT} idle",
                   "both nodes are idle")

    def configuration(self, folder: pathlib.Path) -> str:
        hosts = self.machines.hosts
        return "\n".join([
            "ClusterName=try", f"SlurmctldHost={hosts[0]}", "SlurmUser=root", "SlurmdUser=root",
            "AuthType=auth/munge", "CredType=cred/munge",
            # A job that is requeued waits for as long as its credential is valid.
            f"AuthInfo=socket={folder}/munge,cred_expire=5",
            f"StateSaveLocation={folder}/state", f"SlurmdSpoolDir={folder}/spool-%n",
            f"SlurmctldPidFile={folder}/slurmctld.pid", f"SlurmdPidFile={folder}/slurmd-%n.pid",
            "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "MpiDefault=none",
            "JobAcctGatherType=jobacct_gather/none", "AccountingStorageType=accounting_storage/none",
            "SwitchType=switch/none", "SelectType=select/linear", "SchedulerType=sched/builtin",
            "ReturnToService=2", "SlurmdTimeout=10", "KillWait=30", "JobRequeue=1",
            "UnkillableStepTimeout=60", "MinJobAge=3600",
            *(f"NodeName={host} CPUs={RANKS_PER_NODE} State=UNKNOWN" for host in hosts),
            f"PartitionName=all Nodes={','.join(hosts)} Default=YES MaxTime=INFINITE State=UP", ""])

    def ask(self, *words: str) -> str:
        done = self.machines.run(0, list(words), SLURM_CONF=str(self.conf))
        return done.stdout.strip() if done.returncode == 0 else done.stderr.strip()

    def start(self, training, words, log):
        self.job = training.run.name
        return [self.machines.start(0, ["srun", "-N", COUNT, "--ntasks-per-node", RANKS_PER_NODE,
                                        "--job-name", self.job, self.daso, *words], log,
                                    SLURM_CONF=str(self.conf))]

    def stop(self, started):
        said = self.ask("scancel", "--signal=TERM", f"--name={self.job}")
        assert not said, said


class Batch(Slurm):
    """examples/slurm.sh, which puts its job into the queue again when it was stopped."""
    title = "Slurm, `sbatch`"
    requeues = True

    def start(self, training, words, log):
        # The script has the flags that concern a run's folder.
        self.job = training.run.name
        own = words[words.index("train") + 1:words.index("--out")]
        return [self.machines.start(0, [
            "sbatch", "--wait", "--job-name", self.job, "--nodes", COUNT,
            "--ntasks-per-node", RANKS_PER_NODE, "--cpus-per-task", "1", "--output",
            self.machines.folder / log, ROOT / "examples/slurm.sh", *own], log,
            SLURM_CONF=str(self.conf), DASO=self.daso, RUN=str(training.run))]

    def state(self, name: str) -> dict[str, str]:
        shown = self.ask("scontrol", "-o", "show", "job", self.number(name))
        return dict(re.findall(r"(\w+)=(\S*)", shown))

    def number(self, name: str) -> str:
        return self.ask("squeue", "-h", "-t", "all", "-n", name, "-o", "%i").split()[0]

