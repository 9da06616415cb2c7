# SPDX-License-Identifier: Apache-2.0
"""Plots as SVG, for light and dark pages."""
import html
import math

from compare.results import FP32_PEERS, CellResults

STYLE = """<style>
text { font: 13px system-ui, sans-serif; fill: #24292f } .small { font-size: 11px; fill: #57606a }
.title { font-weight: 600 } .grid { stroke: #d0d7de } .daso { fill: #0969da; stroke: #0969da }
.sync { fill: #9a6700; stroke: #9a6700 } .peer { fill: #8c959f; stroke: #8c959f }
.ddp { fill: #cf222e; stroke: #cf222e } .local { fill: #8250df; stroke: #8250df }
.none, .node { fill: #1a7f37; stroke: #1a7f37 } .line { fill: none; stroke-width: 2 }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .small { fill: #9198a1 }
.grid { stroke: #3d444d } .daso { fill: #58a6ff; stroke: #58a6ff } .ddp { fill: #ff7b72; stroke: #ff7b72 }
.sync { fill: #d29922; stroke: #d29922 } .local { fill: #bc8cff; stroke: #bc8cff }
.none, .node { fill: #3fb950; stroke: #3fb950 } .line { fill: none } }
</style>"""
WIDTH = 760
LEFT = 130
RIGHT = 60
TOP = 44


def style_of(candidate: str) -> str:
    if candidate.startswith("ddp"):
        return "ddp"
    name = candidate.split("-")[0]
    return name if name in ("daso", "sync", "local", "none", "node") else "peer"


def text(x: float, y: float, words: str, style: str = "", anchor: str = "start") -> str:
    return (f'<text x="{x:.1f}" y="{y:.1f}" class="{style}" text-anchor="{anchor}">'
            f"{html.escape(words)}</text>")


def line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="grid"/>'


def picture(height: float, title: str, parts: list[str]) -> str:
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0f}" '
                      f'viewBox="0 0 {WIDTH} {height:.0f}" role="img">', STYLE,
                      text(8, 20, title, "title"), *parts, "</svg>\n"])


def ticks(largest: float) -> list[float]:
    """Round numbers from 0, about five of them."""
    unit = 10 ** math.floor(math.log10(largest / 5))
    step = next(unit * k for k in (1, 2, 5, 10) if largest / (unit * k) <= 6)
    return [i * step for i in range(int(largest / step) + 1)]


def bars(rows: list[tuple[str, float]], title: str) -> str:
    largest = max(value for _, value in rows)
    scale = (WIDTH - LEFT - RIGHT) / largest
    height = TOP + 24 * len(rows) + 28
    parts = []
    for tick in ticks(largest):
        x = LEFT + tick * scale
        parts += [line(x, TOP - 8, x, height - 26),
                  text(x, height - 10, f"{tick:g}", "small", "middle")]
    for i, (name, value) in enumerate(rows):
        y = TOP + 24 * i
        parts += [text(LEFT - 8, y + 12, name, "", "end"),
                  f'<rect x="{LEFT}" y="{y}" width="{value * scale:.1f}" height="16" '
                  f'class="{style_of(name)}"/>',
                  text(LEFT + value * scale + 6, y + 12, f"{value:.3f}", "small")]
    return picture(height, title, parts)


MARKS = ("node", "daso", "local", "sync", "ddp")


def dots(cells: dict[str, CellResults]) -> str:
    """Seconds per step in every cell, on a logarithmic axis."""
    points = []
    for row, found in enumerate(cells.values()):
        for name in MARKS:
            one = found.best(FP32_PEERS) if name == "ddp" else found.find(name)
            if one:
                points.append((row, name, one.median))
    low = 0.2
    high = max((value for _, _, value in points), default=1) * 1.1

    def x_of(value: float) -> float:
        return LEFT + math.log(value / low) / math.log(high / low) * (WIDTH - LEFT - RIGHT)

    height = TOP + 24 * len(cells) + 48
    bottom = TOP + 24 * len(cells)
    parts = []
    for tick in (0.2, 0.5, 1, 2, 5, 10, 20, 50):
        if tick <= high:
            parts += [line(x_of(tick), TOP - 8, x_of(tick), bottom),
                      text(x_of(tick), bottom + 16, f"{tick:g}", "small", "middle")]
    for row, name in enumerate(cells):
        parts.append(text(LEFT - 8, TOP + 24 * row + 12, name, "", "end"))
    for row, name, value in points:
        parts.append(f'<circle cx="{x_of(value):.1f}" cy="{TOP + 24 * row + 8}" r="5" '
                     f'class="{style_of(name)}"/>')
    parts += legend(MARKS, height - 10)
    return picture(height, "Seconds per step in every cell (logarithmic)", parts)


def legend(names: tuple[str, ...], y: float) -> list[str]:
    parts = []
    for i, name in enumerate(names):
        x = LEFT + 110 * i
        parts += [f'<circle cx="{x}" cy="{y - 4:.1f}" r="5" class="{style_of(name)}"/>',
                  text(x + 10, y, name, "small")]
    return parts


def curves(found: dict) -> str:
    """Mean accuracy of the seeds after each epoch, against the mean of the seconds."""
    means = {}
    for name, these in found["runs"].items():
        epochs = zip(*(one["curve"] for one in these))
        means[name] = [(sum(s for s, _ in at) / len(at), sum(a for _, a in at) / len(at))
                       for at in epochs]
    latest = max(points[-1][0] for points in means.values())
    low, high, height = 0.8, 1.0, 340.0
    bottom = height - 60

    def place(seconds: float, accuracy: float) -> tuple[float, float]:
        return (LEFT + seconds / latest * (WIDTH - LEFT - RIGHT),
                bottom - (accuracy - low) / (high - low) * (bottom - TOP))

    parts = []
    for tick in ticks(latest):
        x, _ = place(tick, low)
        parts += [line(x, TOP, x, bottom), text(x, bottom + 16, f"{tick:g} s", "small", "middle")]
    for level in (0.8, 0.85, 0.9, 0.95, 1.0):
        _, y = place(0, level)
        parts += [line(LEFT, y, WIDTH - RIGHT, y),
                  text(LEFT - 8, y + 4, f"{level:.0%}", "small", "end")]
    for name, points in means.items():
        dash = ' stroke-dasharray="5 4"' if name == "daso-paper" else ""
        shown = (place(*point) for point in points if point[1] >= low)
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in shown)
        parts.append(f'<polyline points="{path}" class="{style_of(name)} line"{dash}/>')
    parts += legend(tuple("daso-paper (dashed)" if name == "daso-paper" else name
                          for name in means), height - 12)
    return picture(height, "Test accuracy against time (mean of the seeds; from 80 % on)", parts)
