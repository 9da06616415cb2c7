# SPDX-License-Identifier: Apache-2.0
"""A network that falls apart: at most one part may go on, and the other ends by itself with exit
code 3 and publishes nothing. Which one, of two halves, the tie-break says (docs/membership.md)."""
import contextlib
import dataclasses
import json
import pathlib
import subprocess

from faulting import campaign
from faulting.kinds import Fault, kind
from faulting.system import now

PARTS = {"1|3": [[0], [1, 2, 3]], "3|1": [[0, 1, 2], [3]], "2|2": [[0, 1], [2, 3]]}
# none: each node has a disk of its own, and nobody is asked; file: they share one; witness: as with
# none, and somebody on another machine is asked, whom both parts reach.
TIES = ("none", "file", "witness")
NO_MAJORITY = 3    # exit code
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


def verdict_of(parts: list[list[int]], tie: str, entered: set[int], codes: dict[int, int | None],
               lines: list[dict]) -> str:
    """Empty: never two views that both commit, and whoever may go on has. `codes` are those that
    launchers had ended with by then, `lines` those of all nodes' membership.jsonl."""
    wrong = [f"the launcher of node {node} of a part that cannot go on has ended with {codes[node]}"
             for part in parts if not set(part) & entered for node in part
             if codes.get(node) != NO_MAJORITY]
    went_on = [part for part in parts if set(part) & entered]
    most = max(parts, key=len)
    if len(went_on) == len(parts):
        wrong.append("both parts have entered a view")
    elif 2 * len(most) > sum(map(len, parts)):
        if went_on != [most]:
            wrong.append("the majority has not gone on")
    elif tie == "none" and went_on:
        wrong.append("a half has gone on that nobody has named")
    elif tie != "none" and not went_on:
        wrong.append("neither half has gone on")
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
    try:
        text = file.read_text(errors="replace")
    except OSError:
        return found
    for line in text.splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            pass  # half a line
    return found


@dataclasses.dataclass
class SplitRun(campaign.Run):
    """A run that is split once; nobody is started again, and who goes on is told to stop."""

    entered: set[int] = frozenset()
    codes: dict[int, int | None] = dataclasses.field(default_factory=dict)
    lines: list[dict] = ()

    def strike_all(self, plan: list) -> bool:
        (fault, pause), = plan
        if not self.strike(fault, pause):
            return False
        people = dict(self.here.probes.people)
        self.entered = {node for node in entered_after(self.here.probes.copy(), people, fault.at)
                        if node is not None}
        self.codes = {node: one.process.poll() for node, one in self.job.current().items()}
        outs = {self.place.see(node, self.out) for node in range(self.place.nodes)}
        self.lines = [line for out in outs for line in lines_of(out / "membership.jsonl")]
        return True


@contextlib.contextmanager
def witness_beside(options, place, token: pathlib.Path):
    """On the node after the last, which has no part in the run; its address for the launchers."""
    address = f"{place.address(place.nodes)}:{place.WITNESS_PORT}"
    words = [options.daso, "witness", "--listen", address, "--job-token-file", token]
    program = subprocess.Popen([*place.enter(place.nodes, "net"), *map(str, words)],
                               stdin=subprocess.DEVNULL)
    try:
        yield address
    finally:
        program.terminate()
        program.wait(10)


def one_split(options, place, parts: str, tie: str, name: str) -> dict:
    run = SplitRun(options, place, None, name)
    plan = [(Fault("split", 0, 0, [0.0] * campaign.DRAWS, note=parts), 0.5)]
    with contextlib.ExitStack() as undo:
        if tie != "file":
            undo.enter_context(place.disks_of_their_own(run.out))
        if tie == "witness":
            witness = undo.enter_context(witness_beside(options, place, run.job.token))
            run.job.own_flags = [*run.job.own_flags, "--witness", witness]
        result = run.go(plan)
    wrong = verdict_of(PARTS[parts], tie, set(run.entered), run.codes, list(run.lines))
    if result["crashed"]:
        wrong += "; a process has crashed"
    return {"split": parts, "tie-break": tie, "went on": sorted(run.entered), "exit codes": run.codes,
            "lines": len(run.lines), "wrong": wrong, "hang": result["hang"]}
