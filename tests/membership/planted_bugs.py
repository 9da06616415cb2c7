#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants bugs in the membership machine, one at a time, and sees that the simulation finds each.

A check that cannot fail proves nothing. Each bug is a piece of text in a source and what to put in
its place; a piece that is no longer there fails the test, so that the list stays up to date.

Run as: tests/membership/planted_bugs.py [--runs N] [--only WORD] [--include FOLDER;...]
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LAYER = "src/daso/membership"
TEST = "tests/membership"

# A launcher that was restarted answers in the name of the member that it was.
AMNESIA = """
  if (const Member* const old = member_of(view_.members, self_.node)) {
    Report empty;
    empty.progress.next = empty.progress.committed = view_.first_exchange;
    if (const auto* const prepare = std::get_if<Prepare>(&message.body)) {
      actions_.emplace_back(Send{message.from.node, {*old, message.view,
                                 Promise{prepare->ballot, empty, std::nullopt}}});
    } else if (const auto* const accept = std::get_if<Accept>(&message.body)) {
      actions_.emplace_back(Send{message.from.node, {*old, message.view,
                                 Accepted{accept->ballot}}});
    }
  }
"""

# What is wrong; the file; the text, with any white space; what stands there instead.
BUGS = [
    (
        "a node merges what it has prepared itself",
        "votes.cpp",
        "return peer.progress.holds(own_.committed);",
        "return peer.progress.holds(own_.committed) || true;",
    ),
    ("votes are not frozen after the report", "membership.cpp", "votes_.freeze();", ""),
    (
        "a majority of the new view decides",
        "changing.cpp",
        "if (!decides(view_.members, proposer_.voters(), granted_)) return claim_half(now);"
        " const View next",
        "if (!decides(proposer_.view().members, proposer_.voters(), granted_))"
        " return claim_half(now); const View next",
    ),
    (
        "a restarted launcher votes without its memory",
        "joining.cpp",
        "heard_.push_back({message.from.node, now});",
        "heard_.push_back({message.from.node, now});" + AMNESIA,
    ),
    (
        "a proposer forgets what others have accepted",
        "paxos.cpp",
        "(!bound_ || bound_->ballot < accepted->ballot)",
        "false",
    ),
    (
        "an acceptor forgets its promise",
        "paxos.cpp",
        "if (ballot < promised_) return false; promised_ = ballot; accepted_",
        "promised_ = ballot; accepted_",
    ),
    (
        "a half decides without the tie-break",
        "view.cpp",
        "2 * static_cast<std::size_t>(votes) > electorate.size()",
        "2 * static_cast<std::size_t>(votes) >= electorate.size()",
    ),
    (
        "an exchange is committed that one survivor lacks",
        "report.cpp",
        "settled.push_back({exchange, std::ranges::all_of(",
        "settled.push_back({exchange, std::ranges::any_of(",
    ),
    (
        "numbers go back to the lowest started",
        "report.cpp",
        "next.first_exchange = std::max(next.first_exchange, progress.next);",
        "next.first_exchange = progress.next;",
    ),
    (
        "the promise is given before the ranks have stopped",
        "changing.cpp",
        "postpone_ballot(now); } begin_change(); if (report_) send_promise(now);",
        "postpone_ballot(now); } begin_change(); if (!report_) report_ = Report{.progress = votes_.progress()};"
        " if (report_) send_promise(now);",
    ),
    (
        "nobody asks again",
        "changing.cpp",
        "if (now >= next_send_) {",
        "if (false) {",
    ),
    (
        "a dead proposer is waited for",
        "changing.cpp",
        "if (now >= *next_ballot_) begin_ballot(now);",
        "if (now >= *next_ballot_ && self_.node == view_.members.front().node)"
        " begin_ballot(now);",
    ),
    (
        "the half that the tie-break named is not asked for in the second phase",
        "changing.cpp",
        "return claim_half(now); const View next",
        "return; const View next",
    ),
]


def planted(text: str, old: str, new: str) -> str:
    pattern = r"\s+".join(re.escape(word) for word in old.split())
    if len(re.findall(pattern, text)) != 1:
        sys.exit(f"planted_bugs: not once in the sources: {old}")
    return re.sub(pattern, lambda _: new, text)


class Build:
    """A copy of layer and simulation, compiled by itself; -O1 is the best of both times."""

    def __init__(self, folder: pathlib.Path, compiler: str, includes: list[str]):
        self.folder = folder
        for part in (LAYER, TEST):
            shutil.copytree(ROOT / part, folder / part)
        flags = ["-std=c++20", "-O1", "-DFMT_HEADER_ONLY"]
        flags += [f"-I{folder}/src", f"-I{folder}/tests", f"-I{ROOT}/src"]
        # Among them may be the system's own, which must stay where it is.
        flags += [f"-idirafter{path}" for path in includes if path]
        self.compile = [compiler, *flags]
        sources = sorted((folder / LAYER).glob("*.cpp")) + [ROOT / "src/daso/base/error.cpp"]
        sources += [p for p in (folder / TEST).glob("*.cpp") if not p.name.endswith("_test.cpp")]
        sources.append(folder / TEST / "simulation_test.cpp")
        self.objects = {path.name: self.object_of(path) for path in sources}

    def object_of(self, source: pathlib.Path) -> pathlib.Path:
        made = self.folder / (source.stem + ".o")
        subprocess.run([*self.compile, "-c", source, "-o", made], check=True)
        return made

    def run(self, name: str, runs: int) -> str:
        """The first failure, or nothing."""
        program = self.folder / "simulation"
        link = [*self.compile, *self.objects.values(), "-o", program]
        subprocess.run([*link, "-lgtest", "-lgtest_main", "-lpthread"], check=True)
        environment = {**os.environ, "DASO_MEMBERSHIP_RUNS": str(runs)}
        environment.pop("DASO_MEMBERSHIP_SEED", None)
        result = subprocess.run(
            [program], env=environment, capture_output=True, text=True, timeout=900
        )
        found = re.search(r"seed \d+:.*?(?=\n\[)", result.stdout, re.DOTALL)
        if result.returncode != 0 and not found:
            return f"{name}: ended with {result.returncode}\n{result.stderr[-1000:]}"
        return found[0].rstrip() if found else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--include", default="", help="where fmt's headers are, separated by ;")
    parser.add_argument("--runs", type=int, default=100000, help="most simulated runs for each bug")
    parser.add_argument("--only", default="", help="bugs whose sentence contains this")
    options = parser.parse_args()
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        build = Build(pathlib.Path(folder), options.compiler, options.include.split(";"))
        for bug, name, old, new in BUGS:
            if options.only not in bug:
                continue
            source = pathlib.Path(folder) / LAYER / name
            whole = source.read_text()
            source.write_text(planted(whole, old, new))
            build.object_of(source)
            found = build.run(bug, options.runs)
            print(f"{'found ' if found else 'MISSED'}  {bug}\n        {found}", flush=True)
            if not found:
                missed.append(bug)
            source.write_text(whole)
            build.object_of(source)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
