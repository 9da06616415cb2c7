# SPDX-License-Identifier: Apache-2.0
"""From the times of steps and changes of view to the measures of docs/faults.md. Pure: events in,
numbers out."""
import bisect
import collections
import dataclasses
import statistics

from faulting.kinds import KINDS, Fault

IDLE = 10  # a gap of so many usual steps is no training


class Seen:
    """What happened in a run: events by name, and who did it."""

    def __init__(self, events: dict, people: dict, nodes: int, ranks: int):
        self.events, self.people, self.nodes, self.ranks = events, people, nodes, ranks
        self.steps = collections.defaultdict(list)  # of ranks, by process
        for event in events.get("step", []):
            self.steps[event.pid].append(event.when)

    def of_node(self, node: int) -> list[int]:
        """The processes of its ranks, in the order in which they began to train."""
        pids = [pid for pid in self.steps if self.people[pid].node == node]
        return sorted(pids, key=lambda pid: self.steps[pid][0])

    def first(self, event: str, after: float, until: float, not_of: list[int] = ()) -> float | None:
        """When it first happened in that time, not on these nodes."""
        return min((one.when for one in self.events.get(event, [])
                    if after <= one.when < until and self.people[one.pid].node not in not_of),
                   default=None)


def gaps(times: list[float], after: float, until: float) -> list[tuple[float, float]]:
    """From step to step, as far as they lie in that time, which begins with a fault and ends with the
    next: what was before is not this fault's, and what comes later is the next one's."""
    begin = max(0, bisect.bisect_right(times, after) - 1)
    end = bisect.bisect_left(times, until)
    some = times[begin:end + 1]
    return [(max(one, after), min(next_one, until)) for one, next_one in zip(some, some[1:])
            if next_one > after]


def longest(found: list[tuple[float, float]]) -> float | None:
    return max((end - begin for begin, end in found), default=None)


def measure_all(seen: Seen, faults: list[Fault], ended: float) -> list[dict]:
    ends = [fault.at for fault in faults[1:]] + [ended]
    return [measure(seen, fault, until) for fault, until in zip(faults, ends)]


def measure(seen: Seen, fault: Fault, until: float) -> dict:
    """A fault and what followed, up to the next one."""
    found = dataclasses.asdict(fault)
    found["means"] = KINDS[fault.kind].means if fault.kind in KINDS else ""
    noticed = seen.first("change", fault.at, until, [fault.node])
    entered = seen.first("enter", fault.at, until, [fault.node])
    if noticed and fault.lost:
        found["detection"] = noticed - fault.at
    at_once, later = [], []
    for node in range(seen.nodes):
        if node in fault.lost:
            continue
        for pid in seen.of_node(node):
            for gap in gaps(seen.steps[pid], fault.at, until):
                (at_once if gap[0] <= (entered or until) else later).append(gap)
    found["stall"] = longest(at_once)
    found["later_stall"] = longest(later)
    returned = [trains_again(seen, node, fault.at, until) for node in fault.lost]
    if returned and None not in returned:
        found["return"] = max(returned) - fault.at
        found["return_after"] = max(returned) - max(fault.at, fault.over)
    return {name: round(value, 4) if isinstance(value, float) else value
            for name, value in found.items() if value is not None}


def trains_again(seen: Seen, node: int, after: float, until: float) -> float | None:
    """When ranks of the node that were not there before began to train."""
    return min((seen.steps[pid][0] for pid in seen.of_node(node)
                if after < seen.steps[pid][0] < until), default=None)


def work_of(seen: Seen, faults: list[Fault], lost_steps: int) -> dict:
    """Node-steps of a run, from the first to the last step. A life of a node that was lost takes with
    it what it did since its last exchange: so many steps at most, which count as lost."""
    begin = min((times[0] for times in seen.steps.values()), default=0)
    end = max((times[-1] for times in seen.steps.values()), default=0)
    steps, training = 0, 0.0
    for node in range(seen.nodes):
        lives = [pid for pid in seen.of_node(node) if seen.people[pid].rank % seen.ranks == 0]
        for number, pid in enumerate(lives):
            times = seen.steps[pid]
            lost = lost_steps if number + 1 < len(lives) else 0
            steps += max(0, len(times) - lost)
            between = [after - before for before, after in zip(times, times[1:])]
            if between:
                most = IDLE * statistics.median(between)
                training += sum(min(gap, most) for gap in between)
    wall = end - begin
    return {"node_steps": steps, "wall": round(wall, 3),
            "training_share": round(training / (wall * seen.nodes), 4) if wall else None,
            "steps_per_second": round(steps / wall, 2) if wall else None}


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]
