# SPDX-License-Identifier: Apache-2.0
"""What a campaign has found, for people."""
from faulting.kinds import KINDS
from faulting.measure import percentile
from faulting.verdicts import finished

NAMES = ("detection", "stall", "later_stall", "return")
SHARES = (0.5, 0.9, 0.99, 1)


def row(name: str, faults: list[dict]) -> str:
    cells = []
    for measured in NAMES:
        values = [fault[measured] for fault in faults if measured in fault]
        cells.append(" / ".join(f"{percentile(values, share):.2f}" for share in SHARES)
                     if values else "-")
    return f"| {name} | {len(faults)} | " + " | ".join(cells) + " |"


def flat(results: list[dict]) -> list[str]:
    """The largest growth of what survivors have, by role."""
    lines = []
    every = [one for result in results for one in result["survivors"]]
    for role in ("launcher", "rank"):
        some = [one for one in every if one["role"] == role]
        if not some:
            continue
        growth = {name: max(one[name][1] - one[name][0] for one in some)
                  for name in ("descriptors", "threads", "kilobytes")}
        views = max(one["views"][1] - one["views"][0] for one in some)
        lines.append(f"{len(some)} {role}s that lived through up to {views} views grew by at most "
                     f"{growth['descriptors']} descriptors, {growth['threads']} threads and "
                     f"{growth['kilobytes'] / 1024:.1f} MB")
    return lines


def text_of(results: list[dict]) -> str:
    faults = [fault for result in results for fault in result["faults"]]
    lines = ["| fault | number | " + " | ".join(f"{name} p50 / p90 / p99 / worst (s)"
                                                  for name in NAMES) + " |",
             "|---|---|" + "---|" * len(NAMES)]
    for kind in KINDS:
        some = [fault for fault in faults if fault["kind"] == kind]
        if some:
            lines.append(row(kind, some))
    for means in ("death", "silence", "nothing"):
        some = [fault for fault in faults if fault["means"] == means]
        if some:
            lines.append(row(f"all: {means}", some))
    for flags in sorted({result["flags"] for result in results if result.get("flags")}):
        some = [fault for result in results if result.get("flags") == flags
                for fault in result["faults"] if fault["means"] == "death"]
        if some:
            lines.append(row(f"death, `{flags}`", some))
    lines.append("")
    lines.append(f"{len(results)} runs, {len(faults)} faults, {total(results, 'views')} views: "
                 f"{sum(bool(result['hang']) for result in results)} hangs, "
                 f"{sum(len(result['crashed']) for result in results)} crashes, "
                 f"{sum(len(result['innocent']) for result in results)} nodes lost by no fault, "
                 f"{sum(not finished(result) for result in results)} runs not finished, "
                 f"{sum(result['missed'] for result in results)} faults missed")
    verdicts = [result["replay"]["verdict"] for result in results]
    lines.append("replay: " + ", ".join(f"{verdicts.count(one)} {one}"
                                        for one in sorted(set(verdicts))))
    loads = [load for result in results for load in result["load"]]
    lines.append(f"load average {min(loads)} to {max(loads)}, {total(results, 'seconds'):.0f} s")
    return "\n".join(lines + flat(results))


def total(results: list[dict], name: str) -> float:
    return sum(result[name] or 0 for result in results)
