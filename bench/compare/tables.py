# SPDX-License-Identifier: Apache-2.0
"""Tables of what was measured: a list of rows, of which the first is the head."""
import statistics

from compare import accuracy, scaling
from compare.cells import CELLS, Cell
from compare.results import AUTHORS, FP32_PEERS, CellResults, Result

Rows = list[list[str]]
NOTHING = "–"


def ratio(one: Result | None, base: Result | None) -> str:
    return f"{one.median / base.median:.3f}" if one and base else NOTHING


def median_of(values: list[float], unit: float, digits: int) -> str:
    return f"{statistics.median(values) / unit:.{digits}f}" if values else NOTHING


def cell(found: CellResults) -> Rows:
    """One cell, a row for each candidate."""
    none, node = found.find("none"), found.find("node")
    peer, authors = found.best(FP32_PEERS), found.best(AUTHORS)
    table = [["candidate", "s per step", "min … max", "× none", "× node", "× DDP",
              "× authors' DASO", "waiting, s", "processor, ms", "MB between nodes"]]
    for one in found.results:
        sent = one.bytes_between_nodes
        table.append([one.candidate, f"{one.median:.4f}",
                      f"{min(one.seconds):.4f} … {max(one.seconds):.4f}", ratio(one, none),
                      ratio(one, node), ratio(one, peer), ratio(one, authors),
                      median_of(one.wait_seconds, 1, 3), median_of(one.cpu_seconds, 1e-3, 1),
                      f"{sent / 1e6:.3f}" if sent is not None else NOTHING])
    return table


OVERVIEW = ("none", "node", "daso", "local", "sync")


def cells(found: dict[str, CellResults]) -> Rows:
    """All cells, a row for each: seconds per step, and the ratios that are claimed."""
    table = [["cell", *OVERVIEW, "DDP", "DDP bf16", "daso × node", "daso × DDP", "sync × DDP"]]
    for name, one in found.items():
        peer, node, daso = one.best(FP32_PEERS), one.find("node"), one.find("daso")
        shown = [one.find(candidate) for candidate in OVERVIEW] + [peer, one.find("ddp-bf16")]
        table.append([name, *(f"{it.median:.4f}" if it else NOTHING for it in shown),
                      ratio(daso, node), ratio(daso, peer), ratio(one.find("sync"), peer)])
    return table


def training(found: dict) -> Rows:
    target = found["target"]
    table = [["candidate", f"s to {target:.0%}", "× DDP", "s in all", "× DDP", "MB between nodes",
              "test accuracy, %", "less sync, points"]]
    runs = found["runs"]
    finals = [100 * one["test_accuracy"] for one in runs["sync"]]
    for name, these in runs.items():
        times = [accuracy.seconds_to(one["curve"], target) for one in these]
        ends = [one["seconds"] for one in these]
        own = [100 * one["test_accuracy"] for one in these]
        sent = these[0]["bytes_between_nodes"]
        table.append([name, with_error(times), against(times, [
            accuracy.seconds_to(one["curve"], target) for one in runs["ddp"]]),
            with_error(ends), against(ends, [one["seconds"] for one in runs["ddp"]]),
            f"{sent / 1e6:.1f}" if sent is not None else NOTHING, with_error(own, 2),
            with_error([a - b for a, b in zip(own, finals)], 2)])
    return table


def with_error(values: list[float | None], digits: int = 1) -> str:
    """Mean ± standard error, where several values give one; of those that got there, and how many
    did not."""
    there = [value for value in values if value is not None]
    if not there:
        return "never"
    mean, error = accuracy.mean_and_error(there)
    missing = len(values) - len(there)
    return (f"{mean:.{digits}f}" + (f" ± {error:.{digits}f}" if error is not None else "")
            + (f" ({missing} never)" if missing else ""))


def against(values: list[float | None], base: list[float | None]) -> str:
    if None in values or None in base:
        return NOTHING
    return f"{statistics.fmean(values) / statistics.fmean(base):.3f}"


def cost(found: dict) -> Rows:
    table = [["nodes", "parameters", "MB per exchange and node", "bound, MB", "× bound",
              "processor per exchange, ms", "ns per parameter"]]
    for point in found["points"]:
        least = scaling.bound(point["nodes"], point["parameters"])
        cpu = statistics.median(point["exchange_cpu"])
        table.append([str(point["nodes"]), str(point["parameters"]),
                      f"{point['exchange_bytes'] / 1e6:.3f}", f"{least / 1e6:.3f}",
                      f"{point['exchange_bytes'] / least:.4f}", f"{1000 * cpu:.1f}",
                      f"{1e9 * cpu / point['parameters']:.2f}"])
    return table


def parts() -> Rows:
    rows = [["part", "what"]]
    rows += [[one.name, one.differs] for one in CELLS.values()]
    return rows + [["accuracy", "real training: time to a test accuracy, and the last one"],
                   ["scaling", "bytes and processor time of an exchange"]]


def links(one: Cell) -> str:
    rate = one.rate.replace("mbit", " Mbit/s") if one.limited else "no limit of the rate"
    return f"{rate}, {one.delay.replace('us', ' µs').replace('ms', ' ms')} one way"


def plain(rows: Rows) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        rest = (text.rjust(width) for text, width in zip(row[1:], widths[1:]))
        lines.append("  ".join([row[0].ljust(widths[0]), *rest]).rstrip())
    return "\n".join(lines)


def markdown(rows: Rows) -> str:
    head, *body = rows
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
