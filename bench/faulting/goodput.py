# SPDX-License-Identifier: Apache-2.0
"""What faults cost the same job in three ways to survive them: going on without the lost node, the
whole job again from a checkpoint, and torchrun's elastic restart of a DDP script. Every so many
seconds a rank is killed; wall time for the same number of steps, and how much of the speed without
faults is left.

Links have a delay, and all three wait for them in every step: else nodes would be faster while
another is away, since they share this machine's cores.
"""
import dataclasses
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

from faulting import measure
from faulting.job import Job
from faulting.probes import Probes
from faulting.processes import identify
from faulting.system import ROOT, now, send

SCRIPT = ROOT / "bench" / "peers" / "train_ddp.py"
LIMIT = 1800       # seconds of a run
RENDEZVOUS = 29400
# As many steps between checkpoints for both who need them.
CHECKPOINT_EVERY = 50


@dataclasses.dataclass
class Outcome:
    """Of a run, from its first to its last step."""
    way: str
    wall: float = 0
    faults: int = 0
    steps: int = 0                     # of the job, those that were done again not counted twice
    node_steps_per_second: float = 0   # of the way that goes on, committed ones; else see below
    finished: bool = False


class Killer:
    """Kills a rank now and then, from the first step on."""

    def __init__(self, period: float, seed: int, pids):
        self.period, self.pids, self.draw = period, pids, random.Random(seed)
        self.count, self.began = 0, None

    def look(self, first_step: float | None) -> None:
        if not self.period or first_step is None:
            return
        self.began = self.began or first_step
        if now() < self.began + (self.count + 1) * self.period:
            return
        pids = sorted(self.pids())
        if pids:
            self.count += 1
            send(self.draw.choice(pids), signal.SIGKILL)


def daso_flags(steps: int, data: pathlib.Path) -> list[str]:
    return ["--data", f"idx:{data}", "--model", "cnn", "--batch-size", "4", "--lr", "0.02", "--skip",
            "1", "--wait", "1", "--trace", "none", "--timeout", "20", "--warmup-epochs", "0",
            "--epochs", "1000", "--max-steps", str(steps)]


def committed(probes: Probes, place) -> tuple[float, float, measure.Seen]:
    seen = measure.Seen(probes.copy(), dict(probes.people), place.nodes, place.ranks)
    times = [when for steps in seen.steps.values() for when in (steps[0], steps[-1])]
    return min(times), max(times), seen


def continuing(options, place, steps: int, period: float) -> Outcome:
    out = options.out / "goodput"
    job = Job(options.daso, place, out, options.out / "continue", daso_flags(steps, options.data))
    outcome = Outcome("--on-failure continue")
    with Probes(options.daso, lambda pid: identify(pid, out, place.ranks)) as probes:
        killer = Killer(period, options.seed,
                        lambda: [one.pid for one in job.processes() if one.role == "rank"])
        job.begin()
        deadline = now() + LIMIT
        while not job.over() and now() < deadline:
            job.tend()
            killer.look(next((one.when for one in probes.events["step"][:1]), None))
            time.sleep(0.05)
        outcome.finished = any(one.process.poll() == 0 for one in job.launchers)
        begin, end, seen = committed(probes, place)
        work = measure.work_of(seen, [], lost_steps=2)
        outcome.node_steps_per_second = work["steps_per_second"]
        outcome.wall, outcome.faults, outcome.steps = end - begin, killer.count, steps
        job.kill()
    job.keep()
    return outcome


def restarting(options, place, steps: int, period: float) -> Outcome:
    """By whoever looks after the job: all launchers again with --resume."""
    out = options.out / "goodput"
    flags = [*daso_flags(steps, options.data), "--checkpoint-every", f"{CHECKPOINT_EVERY}steps"]
    job = Job(options.daso, place, out, options.out / "restart", flags, mode="stop")
    outcome = Outcome("--on-failure stop, from checkpoints")
    with Probes(options.daso, lambda pid: identify(pid, out, place.ranks)) as probes:
        killer = Killer(period, options.seed,
                        lambda: [one.pid for one in job.processes() if one.role == "rank"])
        deadline = now() + LIMIT
        while now() < deadline and not outcome.finished:
            job.begin(resume=any((out / "checkpoints").glob("step-*")))
            while any(one.process.poll() is None for one in job.current().values()):
                killer.look(next((one.when for one in probes.events["step"][:1]), None))
                time.sleep(0.05)
                if now() > deadline:
                    break
            outcome.finished = all(one.process.poll() == 0 for one in job.current().values())
        begin, end, _ = committed(probes, place)
        outcome.wall, outcome.faults, outcome.steps = end - begin, killer.count, steps
        job.kill()
    job.keep()
    return outcome


def elastic(options, place, steps: int, period: float) -> Outcome:
    folder = options.out / "elastic"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    clock, checkpoint = folder / "steps", folder / "checkpoint.pt"
    python = options.python
    outcome = Outcome("torchrun --max-restarts")

    def start(node: int) -> subprocess.Popen:
        words = [python, "-m", "torch.distributed.run", "--nnodes", str(place.nodes),
                 "--nproc-per-node", str(place.ranks), "--max-restarts", "1000",
                 "--monitor-interval", "0.1", "--rdzv-backend", "c10d", "--rdzv-id", "faults",
                 "--rdzv-endpoint", f"{place.address(0)}:{RENDEZVOUS}", SCRIPT, options.data,
                 "--batch-size", "4", "--lr", "0.02", "--epochs", "1000", "--max-steps",
                 str(steps), "--checkpoint", checkpoint, "--checkpoint-every",
                 str(CHECKPOINT_EVERY), "--clock", clock]
        with open(folder / f"node{node}.log", "a") as log:
            return subprocess.Popen([*place.enter(node), *map(str, words)], stdout=log, stderr=log,
                                    stdin=subprocess.DEVNULL, start_new_session=True,
                                    env={**os.environ, "OMP_NUM_THREADS": "1"})

    agents = [start(node) for node in range(place.nodes)]
    killer = Killer(period, options.seed, lambda: workers_of(checkpoint))
    deadline = now() + LIMIT
    try:
        while now() < deadline and any(agent.poll() is None for agent in agents):
            for node, agent in enumerate(agents):
                if agent.poll() not in (None, 0):
                    agents[node] = start(node)
            killer.look(first_line(clock))
            time.sleep(0.05)
        outcome.finished = all(agent.poll() == 0 for agent in agents)
    finally:
        for pid in workers_of(checkpoint):
            send(pid, signal.SIGKILL)
        for agent in agents:
            agent.kill()
            agent.wait(30)
    lines = clock.read_text().split("\n") if clock.exists() else []
    times = [float(line.split()[0]) for line in lines if line]
    outcome.wall = times[-1] - times[0] if times else 0
    outcome.faults, outcome.steps = killer.count, steps
    return outcome


def workers_of(checkpoint: pathlib.Path) -> list[int]:
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
            ranked = b"\0LOCAL_RANK=" in (b"\0" + (entry / "environ").read_bytes()) if words else 0
        except OSError:
            continue
        if os.fsencode(checkpoint) in words and ranked:
            found.append(int(entry.name))
    return found


def first_line(clock: pathlib.Path) -> float | None:
    try:
        return float(clock.read_text().split()[0])
    except (OSError, IndexError, ValueError):
        return None


WAYS = {"continue": continuing, "restart": restarting, "torchrun": elastic}


def compare(options, place) -> list[dict]:
    """Each way without faults, then with them."""
    rows = []
    for name in options.ways:
        quiet = WAYS[name](options, place, options.steps, 0)
        under = WAYS[name](options, place, options.steps, options.period)
        rates = under.node_steps_per_second, quiet.node_steps_per_second
        goodput = rates[0] / rates[1] if rates[1] else quiet.wall / under.wall if under.wall else 0
        rows.append({"way": under.way, "steps": options.steps, "wall": round(quiet.wall, 1),
                     "wall_under_faults": round(under.wall, 1), "faults": under.faults,
                     "goodput": round(goodput, 4), "finished": quiet.finished and under.finished,
                     "load": round(os.getloadavg()[0], 1)})
        print(rows[-1], flush=True)
    return rows
