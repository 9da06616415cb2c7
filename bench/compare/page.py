# SPDX-License-Identifier: Apache-2.0
"""What compare_peers shows, and what it puts into docs/benchmarks.md."""
import pathlib

from compare import accuracy, plots, tables
from compare.cells import CELLS, Cell
from compare.results import CellResults
from compare.runs import Refusal


def parts_table() -> str:
    return "\n".join(f"{row[0]:16}{row[1]}" for row in tables.parts()[1:])


def plain(found: dict, parts: list[str]) -> str:
    blocks = []
    for part in parts:
        if part not in found:
            continue
        if part in CELLS:
            blocks += [f"{part}: {CELLS[part].differs}",
                       tables.plain(tables.cell(CellResults.of(found[part])))]
        elif part == "accuracy":
            blocks += ["time to accuracy", tables.plain(tables.training(found[part]))]
        else:
            blocks += ["cost of an exchange", tables.plain(tables.cost(found[part]))]
    return "\n\n".join(blocks)


def write(found: dict, docs: pathlib.Path) -> None:
    """All that is kept goes into the page; blocks of which nothing is kept stay as they are."""
    file = docs / "benchmarks.md"
    text = file.read_text()
    for name, block in (("base", base), ("cells", cells), ("accuracy", training),
                        ("scaling", cost)):
        body, plot = block(found)
        if body is None:
            continue
        if plot is not None:
            image = docs / "images" / f"benchmark-{name}.svg"
            image.write_text(plot)
            body = f"![]({image.relative_to(docs)})\n\n{body}"
        text = insert(text, name, body)
    file.write_text(text)


def markers(name: str) -> tuple[str, str]:
    return (f"<!-- {name}: made by bench/compare_peers --write: begin -->",
            f"<!-- {name}: made by bench/compare_peers --write: end -->")


def insert(document: str, name: str, text: str) -> str:
    """The document with the text between the markers of this name."""
    begin, end = markers(name)
    if document.count(begin) != 1 or document.count(end) != 1:
        raise Refusal(f"the page needs two lines between which the table goes, '{begin}' and "
                      f"'{end}', each once")
    before, rest = document.split(begin)
    if end not in rest:
        raise Refusal(f"'{end}' stands before '{begin}'")
    return f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}"


def origin(part: dict, name: str) -> str:
    made = part["made"]
    return (f"{made['machine']}, shared by all ranks; {made['date']}; {made['version']}; "
            f"`bench/compare_peers --parts {name} --write`")


def commands(these: dict[str, str]) -> str:
    return "\n".join(f"    {command}  # {name}" for name, command in these.items())


def base(found: dict) -> tuple[str | None, str | None]:
    if "base" not in found:
        return None, None
    part = found["base"]
    cell, measured = Cell(**part["cell"]), CellResults.of(part)
    rounds = min(len(one.seconds) for one in measured.results)
    facts = [f"**Links**: {tables.links(cell)}; medians of {rounds} rounds.",
             f"**Made**: {origin(part, 'base')}"]
    blocks = ["\n".join(f"- {fact}" for fact in facts), tables.markdown(tables.cell(measured)),
              "Each run was one of these commands:",
              commands({one.candidate: one.command for one in measured.results})]
    return "\n\n".join(blocks), plots.bars(
        [(one.candidate, one.median) for one in measured.results],
        f"Seconds per step: {cell.nodes} nodes × {cell.ranks_per_node} ranks, {tables.links(cell)}")


def cells(found: dict) -> tuple[str | None, str | None]:
    measured = {name: CellResults.of(found[name]) for name in CELLS if name in found}
    if not measured:
        return None, None
    missing = [name for name in CELLS if name not in found]
    blocks = [tables.markdown(tables.cells(measured))]
    if missing:
        blocks.append(f"Not measured yet: {', '.join(missing)}.")
    when = sorted({(found[name]["made"]["version"], found[name]["made"]["date"])
                   for name in measured})
    blocks.append("Made by " + "; ".join(f"{version} on {date}" for version, date in when) + ".")
    return "\n\n".join(blocks), plots.dots(measured)


def training(found: dict) -> tuple[str | None, str | None]:
    if "accuracy" not in found:
        return None, None
    part = found["accuracy"]
    link, compute = accuracy.traffic_to_compute(part)
    seeds = len(part["runs"]["sync"])
    facts = [f"**Traffic against compute**: in a step `sync` sends what takes its link {link:.4f} s; "
             f"a step of `node`, without traffic between nodes, takes {compute:.4f} s: a ratio of "
             f"{link / compute:.1f}.",
             f"**Numbers**: means of {seeds} seeds ± their standard errors; the last column is "
             "paired by seed.",
             f"**Made**: {origin(part, 'accuracy')}"]
    blocks = ["\n".join(f"- {fact}" for fact in facts), tables.markdown(tables.training(part)),
              commands(part["commands"])]
    return "\n\n".join(blocks), plots.curves(part)


def cost(found: dict) -> tuple[str | None, str | None]:
    if "scaling" not in found:
        return None, None
    part = found["scaling"]
    return "\n\n".join([f"- **Made**: {origin(part, 'scaling')}",
                        tables.markdown(tables.cost(part)), f"    {part['command']}"]), None
