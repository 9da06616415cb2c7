# SPDX-License-Identifier: Apache-2.0
"""What bench/step_table makes of the seconds that it has measured: medians, ratios, tables."""
import dataclasses
import statistics

BEGIN = "<!-- made by bench/step_table --write: begin -->"
END = "<!-- made by bench/step_table --write: end -->"
# The peer of the ratio is the fastest of these.
FP32_PEERS = ("ddp", "ddp-buckets")


class Refusal(Exception):
    """Something for the user to mend."""


@dataclasses.dataclass
class Result:
    """One candidate in one cell."""
    candidate: str
    command: str
    seconds: list[float] = dataclasses.field(default_factory=list)  # per step, one a run
    wait_seconds: list[float] = dataclasses.field(default_factory=list)
    bytes_between_nodes: float | None = None  # per step and node; None: not known

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


@dataclasses.dataclass
class Cell:
    """One state of the links."""
    name: str
    links: str
    results: list[Result] = dataclasses.field(default_factory=list)

    def find(self, candidate: str) -> Result | None:
        return next((one for one in self.results if one.candidate == candidate), None)

    def peer(self) -> Result | None:
        peers = [one for one in self.results if one.candidate in FP32_PEERS]
        return min(peers, key=lambda one: one.median, default=None)


def order(candidates: list[str], round_number: int) -> list[str]:
    """Everybody runs once a round, and each round begins with another."""
    first = round_number % len(candidates)
    return candidates[first:] + candidates[:first]


def ratio(result: Result, base: Result | None) -> str:
    return f"{result.median / base.median:.3f}" if base else "–"


def rows(cell: Cell) -> list[list[str]]:
    none, node, peer = cell.find("none"), cell.find("node"), cell.peer()
    table = [["candidate", "s per step", "min … max", "× none", "× node", "× DDP",
              "waiting, s", "MB between nodes"]]
    for one in cell.results:
        wait = f"{statistics.median(one.wait_seconds):.3f}" if one.wait_seconds else "–"
        sent = one.bytes_between_nodes
        table.append([one.candidate, f"{one.median:.4f}",
                      f"{min(one.seconds):.4f} … {max(one.seconds):.4f}", ratio(one, none),
                      ratio(one, node), ratio(one, peer), wait,
                      f"{sent / 1e6:.3f}" if sent is not None else "–"])
    return table


def plain_table(cell: Cell) -> str:
    table = rows(cell)
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    lines = [f"{cell.name}: {cell.links}"]
    for row in table:
        rest = (text.rjust(width) for text, width in zip(row[1:], widths[1:]))
        lines.append("  ".join([row[0].ljust(widths[0]), *rest]))
    return "\n".join(lines)


def markdown_table(cell: Cell) -> str:
    head, *body = rows(cell)
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def markdown(cells: list[Cell], set_up: dict[str, str]) -> str:
    parts = [f"- **{name}**: {text}" for name, text in set_up.items()]
    blocks = ["\n".join(parts)]
    for cell in cells:
        blocks += [f"### {cell.links[0].upper()}{cell.links[1:]}", markdown_table(cell)]
    commands = [f"    {one.command}  # {one.candidate}" for one in cells[-1].results]
    where = " (`--cluster NAME` only on the limited links)" if "--cluster" in commands[0] else ""
    blocks += [f"Each run was one of these commands{where}:", "\n".join(commands)]
    return "\n\n".join(blocks)


def insert(document: str, text: str) -> str:
    """The document with the text between the markers."""
    if document.count(BEGIN) != 1 or document.count(END) != 1:
        raise Refusal(f"the page needs two lines between which the table goes, '{BEGIN}' and "
                      f"'{END}', each once")
    before, rest = document.split(BEGIN)
    if END not in rest:
        raise Refusal(f"'{END}' stands before '{BEGIN}'")
    return f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}"
