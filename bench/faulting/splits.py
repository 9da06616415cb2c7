# SPDX-License-Identifier: Apache-2.0
"""A network that falls apart: at most one part may go on, and the other ends by itself with exit
code 3 and publishes nothing."""
import json
import pathlib

from faulting import campaign
from faulting.kinds import Fault, kind
from faulting.system import now

PARTS = {"1|3": [[0], [1, 2, 3]], "3|1": [[0, 1, 2], [3]], "2|2": [[0, 1], [2, 3]]}
FOR_DECISION = 40  # seconds until every part has gone on or ended


@kind("split", "silence", needs="splits")
def split(here, fault: Fault) -> None:
    """Two parts that do not hear each other, for as long as it takes both to know what to do."""
    parts = PARTS[fault.note]
    pairs = [(to, sender) for to in range(here.place.nodes) for sender in range(here.place.nodes)
             if not any({to, sender} <= set(part) for part in parts)]
    rules = [(to, ("INPUT", "-s", here.place.address(sender), "-j", "DROP"))
             for to, sender in pairs]
    here.job.held.update(range(here.place.nodes))
    fault.strikes(*range(here.place.nodes))
    for to, rule in rules:
        here.place.filter(to, "-A", *rule)
    fault.at = now()  # from here on they are apart
    here.await_that(lambda: settled(here, fault, parts), FOR_DECISION)
    here.wait(2)  # whoever goes on has time to commit something
    fault.over = now()
    for to, rule in rules:
        here.place.filter(to, "-D", *rule)


def settled(here, fault: Fault, parts: list[list[int]]) -> bool:
    """Each part has entered a view by itself, or all its launchers have ended."""
    entered = entered_after(here.probes.copy(), here.probes.people, fault.at)
    launchers = here.job.current()
    return all(set(part) & entered or all(launchers[node].process.poll() is not None
                                          for node in part) for part in parts)


def entered_after(events: dict, people: dict, when: float) -> set[int]:
    """The nodes whose launchers have entered a view since."""
    return {people[one.pid].node for one in events.get("enter", []) if one.when > when}


def verdict_of(parts: list[list[int]], entered: set[int], lines: list[dict]) -> str:
    """Empty: never two views that both commit. `lines` are those of membership.jsonl."""
    wrong = []
    if all(set(part) & entered for part in parts):
        wrong.append("both parts have entered a view")
    members: dict[int, list] = {}
    committed: dict[int, int] = {}
    for line in lines:
        if "nodes" in line:
            if members.setdefault(line["view"], line["nodes"]) != line["nodes"]:
                wrong.append(f"view {line['view']} is two")
        elif line.get("outcome") == "committed":
            if committed.setdefault(line["exchange"], line["view"]) != line["view"]:
                wrong.append(f"exchange {line['exchange']} was committed in two views")
    return "; ".join(wrong)


def lines_of(file: pathlib.Path) -> list[dict]:
    found = []
    for line in file.read_text(errors="replace").splitlines() if file.exists() else []:
        try:
            found.append(json.loads(line))
        except ValueError:
            pass  # half a line
    return found


class SplitRun(campaign.Run):
    """A run that is split once; then nobody is started again, and it ends or goes on."""

    def strike(self, fault: Fault, pause: float) -> bool:
        super().strike(fault, pause)
        self.fault = fault
        people = dict(self.here.probes.people)
        self.entered = {node for node in entered_after(self.here.probes.copy(), people, fault.at)
                        if node is not None}
        return False


def one_split(options, place, parts: str, name: str) -> dict:
    run = SplitRun(options, place, None, name)
    result = run.go([(Fault("split", 0, 0, [0.0] * campaign.DRAWS, note=parts), 0.5)])
    lines = lines_of(run.kept / "membership.jsonl")
    codes = {node: launcher.process.returncode for node, launcher in run.job.current().items()}
    entered = getattr(run, "entered", set())
    wrong = verdict_of(PARTS[parts], entered, lines)
    if result["crashed"]:
        wrong += "; a process has crashed"
    return {"split": parts, "went on": sorted(entered), "exit codes": codes, "wrong": wrong,
            "hang": result["hang"]}
