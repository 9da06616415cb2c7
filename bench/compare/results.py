# SPDX-License-Identifier: Apache-2.0
"""What was measured: part by part, in one JSON file."""
import dataclasses
import json
import pathlib
import statistics

# The peer of the ratios is the fastest of these.
FP32_PEERS = ("ddp", "ddp-1mb")
AUTHORS = ("heat", "heat-ring")


@dataclasses.dataclass
class Result:
    """One candidate in one cell; per step, one number a run."""
    candidate: str
    command: str
    seconds: list[float] = dataclasses.field(default_factory=list)
    wait_seconds: list[float] = dataclasses.field(default_factory=list)
    cpu_seconds: list[float] = dataclasses.field(default_factory=list)
    bytes_between_nodes: float | None = None  # of the node that sends most; None: not known

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def add(self, found: dict) -> None:
        self.seconds.append(found["seconds_per_step"])
        if "wait_seconds" in found:
            self.wait_seconds.append(found["wait_seconds"])
            self.cpu_seconds.append(found["cpu_seconds"])
            self.bytes_between_nodes = found["bytes_between_nodes"]


@dataclasses.dataclass
class CellResults:
    results: list[Result] = dataclasses.field(default_factory=list)

    def find(self, candidate: str) -> Result | None:
        return next((one for one in self.results if one.candidate == candidate), None)

    def best(self, candidates: tuple[str, ...]) -> Result | None:
        """The fastest of these."""
        these = [one for one in self.results if one.candidate in candidates]
        return min(these, key=lambda one: one.median, default=None)

    @staticmethod
    def of(data: dict) -> "CellResults":
        return CellResults([Result(**one) for one in data["results"]])


def order(candidates: list[str], round_number: int) -> list[str]:
    """Everybody runs once a round, and each round begins with another."""
    first = round_number % len(candidates)
    return candidates[first:] + candidates[:first]


def load(file: pathlib.Path) -> dict:
    return json.loads(file.read_text()) if file.exists() else {}


def keep(file: pathlib.Path, part: str, found: dict) -> None:
    """Puts a part into the file, in place of what it had of it."""
    everything = {**load(file), part: found}
    draft = file.with_suffix(".new")
    draft.write_text(json.dumps(everything, indent=1, ensure_ascii=False) + "\n")
    draft.replace(file)
