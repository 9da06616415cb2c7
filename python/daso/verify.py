# SPDX-License-Identifier: Apache-2.0
"""Checks the package against cases that an independent program has computed.

    python -m daso.verify tests/golden/*.json

Training cases run on as many ranks and nodes as they name, each a process, with a model, autograd
and optimizer of PyTorch. Cases of schedules go through daso.schedule(). Cases of encodings have no
part in Python: `daso verify` checks them.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

import daso
from daso import program

_LIMIT = 120  # seconds for one case


class Quadratic(torch.nn.Module):
    """1/2 sum of curvature (x - target)^2"""

    def __init__(self, start: list[float], curvature: list[float], target: list[float]):
        super().__init__()
        self.x = torch.nn.Parameter(torch.tensor(start))
        self.curvature = torch.tensor(curvature)
        self.target = torch.tensor(target)

    def forward(self) -> torch.Tensor:
        return (self.curvature * (self.x - self.target).square()).sum() * 0.5


def train(case: dict[str, Any]) -> list[str]:
    """What this rank finds wrong."""
    world = daso.init()
    # Only rank 0 begins where the case says; the others must be given its parameters.
    start = case["start"] if world.rank == 0 else [float(world.rank)] * len(case["start"])
    model = Quadratic(start, case["curvature"], case["targets"][world.rank])
    optimizer = torch.optim.SGD(
        model.parameters(),
        case["lr"],
        momentum=case.get("momentum", 0),
        weight_decay=case.get("weight_decay", 0),
    )
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        run = daso.Run(
            model,
            optimizer,
            epochs=len(case["schedule"]),
            steps_per_epoch=case["batches"],
            schedule=case["schedule"],
            merge=case["merge"],
            wire="fp32",
            out=world.gather(folder)[0],
            progress=False,
        )
        step = 0
        for _ in run.epochs():
            for _ in run.batches(range(case["batches"])):
                run.step(model())
                expected = case["expect"]["parameters"][step][world.node]
                for found, right in zip(model.x.tolist(), expected, strict=True):
                    bound = case["tolerance"] + 1e-6 * abs(right)
                    if not abs(found - right) <= bound:
                        wrong.append(f"step {step}, node {world.node}: {found}, expected {right}")
                step += 1
        world.barrier()  # the folder is everybody's
    return wrong


def launch(file: Path, index: int, case: dict[str, Any]) -> list[str]:
    ranks = ",".join(str(number) for number in case["nodes"])
    words = [str(program.path()), "run", "--nodes", str(len(case["nodes"]))]
    words += ["--ranks-per-node", ranks, "--", sys.executable, "-m", "daso.verify"]
    done = subprocess.run(
        [*words, "--case", str(index), str(file)],
        capture_output=True,
        text=True,
        timeout=_LIMIT,
        env=program.environment(),
        check=False,
    )
    if done.returncode == 0:
        return []
    return (done.stdout + done.stderr).strip().splitlines()[-3:]


def check_schedule(case: dict[str, Any]) -> list[str]:
    found = daso.schedule(
        schedule="plateau",
        losses=[math.nan if loss is None else loss for loss in case["losses"]],
        skip=case["skip"],
        wait=case["wait"],
        warmup_epochs=case["warmup"],
        cooldown_epochs=case["cooldown"],
        patience=case.get("patience", 2),
        threshold=case.get("threshold", 0.05),
    )
    trajectory = [[epoch["phase"], epoch["skip"], epoch["wait"]] for epoch in found]
    return [] if trajectory == case["expect"] else [f"{trajectory}, expected {case['expect']}"]


def check_periods(case: dict[str, Any]) -> list[str]:
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(",".join(repr(rate) for rate in case["learning_rates"]))
        file.flush()
        found = daso.schedule(
            learning_rates=file.name,
            batches=case["batches"],
            skip=case["skip"],
            alpha=case["alpha"],
            warmup_epochs=0,
        )
    starts = [start for epoch in found for start in epoch["starts"]]
    return [] if starts == case["expect"] else [f"{starts}, expected {case['expect']}"]


def check(file: Path, index: int, case: dict[str, Any]) -> list[str] | None:
    """What is wrong; None where Python has no part in it."""
    if "start" in case:
        return launch(file, index, case)
    if "losses" in case:
        return check_schedule(case)
    if "learning_rates" in case:
        return check_periods(case)
    return None


def cases_in(file: Path) -> list[dict[str, Any]]:
    found = json.loads(file.read_text())
    return found if isinstance(found, list) else [found]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m daso.verify")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--case", type=int, help=argparse.SUPPRESS)  # of a rank
    flags = parser.parse_args()
    if flags.case is not None:
        wrong = train(cases_in(flags.files[0])[flags.case])
        print("\n".join(wrong))
        return 1 if wrong else 0
    right = failed = 0
    for file in flags.files:
        for index, case in enumerate(cases_in(file)):
            name = f"{file.name}: {case.get('name', index)}"
            wrong = check(file, index, case)
            if wrong is None:
                print(f"left to daso verify  {name}")
            elif wrong:
                failed += 1
                print(f"WRONG  {name}\n  " + "\n  ".join(wrong))
            else:
                right += 1
                print(f"right  {name}")
    print(f"{right} of {right + failed} cases are right")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
