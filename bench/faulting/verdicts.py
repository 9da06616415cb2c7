# SPDX-License-Identifier: Apache-2.0
"""What went wrong in a run besides what was done to it on purpose."""
import json
import pathlib
import re

from faulting.job import FINISHED, STOPPED
from faulting.kinds import Fault

CRASH = re.compile(r"bug at |terminate called|[Aa]ssert|stack smashing|double free|"
                   r"ended by signal (?:4|6|7|8) |ended with exit code [12]\b")
LOST = re.compile(r"node(\d+) is (?:lost|ended)")
FIRST_VIEWS = 3  # that a process has seen when what it has is looked at for the first time


def expected(node: int | None, when: float, faults: list[Fault], ended: float) -> bool:
    """Whether this node may be lost at that time: the last fault before was aimed at it."""
    before = [fault for fault in faults if fault.at <= when]
    return bool(before) and node in before[-1].lost


def of(job, faults: list[Fault], people: dict, ended: float) -> dict:
    """Crashes, and nodes that were lost though nobody meant them to."""
    innocent = []
    for said in job.said:
        found = LOST.search(said.line)
        if found and not expected(int(found[1]), said.when, faults, ended):
            innocent.append(said.line)
    for launcher in job.launchers:
        code = launcher.process.returncode
        if code in (FINISHED, None) or (code == STOPPED and job.told_to_stop):
            continue
        # Who is started again too late for the run's end has nobody to join.
        if launcher.joined and job.over() and launcher.ended is None:
            continue
        node = launcher.node if job.place.several else None
        if not expected(node, launcher.ended or ended, faults, ended):
            innocent.append(f"the launcher of node {launcher.node} ended with {code}")
    return {"crashed": [said.line for said in job.said if CRASH.search(said.line)],
            "innocent": innocent}


def views_in(out: pathlib.Path) -> int:
    """How many the run has written down."""
    try:
        lines = (out / "membership.jsonl").read_text(errors="replace").splitlines()
    except OSError:
        return 0
    count = 0
    for line in lines:
        try:
            count += "nodes" in json.loads(line)
        except ValueError:
            pass  # half a line
    return count


def survivors(samples: dict[int, list], people: dict) -> list[dict]:
    """Of processes that lived through several views: what they had after the first few, and what in
    the end."""
    found = []
    for taken in samples.values():
        later = [one for one in taken if one[0] >= FIRST_VIEWS] or taken
        (views_before, process, before), (views_after, _, after) = later[0], later[-1]
        if views_after > views_before:
            found.append({"role": process.role, "node": process.node, "rank": process.rank,
                          "views": [views_before, views_after],
                          **{name: [before[name], after[name]] for name in before}})
    return found


def finished(result: dict) -> bool:
    """It has come to its end, or to where it was told to stop."""
    return FINISHED in result["exits"] or (result["stopped"] and STOPPED in result["exits"])


def good(result: dict) -> bool:
    return (not result["hang"] and not result["crashed"] and not result["innocent"]
            and finished(result) and result.get("replay", {}).get("equal") is not False)
