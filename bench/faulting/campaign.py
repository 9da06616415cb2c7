# SPDX-License-Identifier: Apache-2.0
"""One run and its faults: which, when, and what is kept of it."""
import dataclasses
import gzip
import json
import os
import pathlib
import random
import time

from faulting import machine_faults, network_faults, process_faults  # noqa: F401: fill the table
from faulting import measure, replay, verdicts
from faulting.job import Hang, Job
from faulting.kinds import KINDS, Fault, Here, Missed
from faulting.probes import Probes
from faulting.processes import identify, is_alive, means_of
from faulting.system import await_that, now

DRAWS = 3          # that a kind may use
FRESH = 1.5        # seconds: a rank trains if its last step is not older
AT_ONCE = 1        # seconds: launchers enter a view so close to each other
FOR_ALL = 120      # seconds until all nodes are back, at most


def plan_of(seed: int, number: int, kinds: list[str], count: int, nodes: list[int],
            ranks: int) -> list[tuple[Fault, float]]:
    """The faults of a run, each with a draw for the pause before it. All kinds come equally often:
    they are dealt from decks that follow each other through all runs."""
    draw = random.Random(f"{seed}/{number}")
    dealt = []
    for index in range(number * count, (number + 1) * count):
        deck, place = divmod(index, len(kinds))
        shuffled = random.Random(f"{seed}/deck {deck}").sample(kinds, len(kinds))
        fault = Fault(shuffled[place], draw.choice(nodes), draw.randrange(ranks),
                      [draw.random() for _ in range(DRAWS)])
        dealt.append((fault, draw.random()))
    return dealt


@dataclasses.dataclass
class Run:
    """What a campaign does to one job."""
    options: object
    place: object
    disk: object
    number: int

    def __post_init__(self):
        options = self.options
        self.out = (self.disk.path if self.disk else options.out) / "run"
        self.kept = options.out / f"run{self.number}"
        flags = ["--silence", str(options.silence), *options.flags]
        self.job = Job(options.daso, self.place, self.out, self.kept, flags)
        self.faults: list[Fault] = []
        self.samples: dict[int, list] = {}  # by process: views so far, and its means
        self.missed = 0

    def go(self, plan: list[tuple[Fault, float]], stops: bool = True) -> dict:
        """Without faults, or if it is not to stop, it comes to its own end."""
        began, load = now(), os.getloadavg()[0]
        hang = None
        ranks = self.place.ranks
        with Probes(self.options.daso, lambda pid: identify(pid, self.out, ranks)) as probes:
            self.here = Here(self.job, probes, self.place, self.options.silence, self.disk)
            try:
                self.job.begin()
                if self.await_all() and self.strike_all(plan) and stops:
                    self.job.stop()
                self.job.await_end(self.options.limit, self.last_step)
            except Hang as what:
                hang = str(what)
                self.job.keep_stacks()
            finally:
                ended = now()
                self.job.kill()
                events, people = probes.copy(), dict(probes.people)
        self.job.keep()
        seen = measure.Seen(events, people, self.place.nodes, self.place.ranks)
        result = {"number": self.number, "seconds": round(ended - began, 1),
                  "load": [round(load, 1), round(os.getloadavg()[0], 1)],
                  "exits": [one.process.returncode for one in self.job.launchers],
                  "stopped": self.job.told_to_stop, "hang": hang, "missed": self.missed,
                  "views": self.job.out.exists() and verdicts.views_in(self.out)}
        result |= measure.work_of(seen, self.faults, self.options.lost_steps)
        result["faults"] = measure.measure_all(seen, self.faults, ended)
        result |= verdicts.of(self.job, self.faults, people, ended)
        result["survivors"] = verdicts.survivors(self.samples, people)
        self.keep(seen)
        return result

    def strike_all(self, plan: list[tuple[Fault, float]]) -> bool:
        """One after the other; then the run has shown what it can. False: it was over before, or
        there was nothing to show."""
        if not all(self.strike(fault, pause) for fault, pause in plan):
            return False
        self.here.wait(self.options.gap if plan else 0)
        return bool(plan) and self.await_all()

    def strike(self, fault: Fault, pause: float) -> bool:
        """False: the run is over."""
        self.here.wait((0.5 + pause) * self.options.gap)
        if not self.await_all():
            return False
        self.sample()
        try:
            KINDS[fault.kind].do(self.here, fault)
        except Missed as what:
            fault.note = f"missed: {what}"
            self.missed += 1
        if fault.at:  # a first part may have struck all the same
            fault.over = now()
            self.faults.append(fault)
        return True

    def await_all(self) -> bool:
        """Waits until all ranks train in a view of all nodes. False: the run is over."""
        def trains() -> bool:
            return self.job.over() or self.all_train()

        def meanwhile() -> None:
            self.job.tend()
            if now() - max(began, self.last_step()) > self.options.limit:
                raise Hang(f"no step for {self.options.limit:.0f} s")

        began = now()
        if not await_that(trains, FOR_ALL, meanwhile):
            raise Hang(f"not all nodes were back within {FOR_ALL} s")
        return not self.job.over()

    def all_train(self) -> bool:
        """Each rank lives, and has begun a step since the last view was entered, by all launchers:
        one that was cut off may not know yet that the others went on without it."""
        last = self.here.probes.last_steps()
        entered = self.here.probes.last_entered().values()
        together = not entered or max(entered) - min(entered) < AT_ONCE
        since = max([*entered, now() - FRESH])
        return (together and len(last) == self.place.nodes * self.place.ranks
                and all(when > since and is_alive(pid) for when, pid in last.values()))

    def last_step(self) -> float:
        return max((when for when, _ in self.here.probes.last_steps().values()), default=0)

    def sample(self) -> None:
        views = len(self.here.probes.events["enter"]) // (self.place.nodes)
        for process in self.job.processes():
            means = means_of(process.pid)
            if means and process.role != "guardian":
                self.samples.setdefault(process.pid, []).append((views, process, means))

    def keep(self, seen) -> None:
        with gzip.open(self.kept / "events.jsonl.gz", "wt") as file:
            for event, happened in seen.events.items():
                for one in happened:
                    person = seen.people[one.pid]
                    file.write(json.dumps([event, round(one.when, 6), person.role, person.node,
                                           person.rank, one.pid, one.value]) + "\n")


def one_run(options, place, disk, number: int) -> tuple[dict, replay.Replay]:
    """What came out, but for the replay's verdict; and that, which is at work."""
    nodes = options.victims if options.victims else list(range(place.nodes))
    plan = plan_of(options.seed, number, options.kinds, options.faults, nodes, place.ranks)
    run = Run(options, place, disk, number)
    return run.go(plan), replay.Replay(options.daso, run.out, run.kept)
