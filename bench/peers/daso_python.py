# SPDX-License-Identifier: Apache-2.0
"""The Python package daso, doing the emulated job of `daso bench step`.

    daso run --nodes 4 --ranks-per-node 2 [--cluster NAME] -- \\
        .venv/bin/python3 bench/peers/daso_python.py

Only the accelerator is emulated (emulated.py). Rank 0 prints one JSON object.
"""
import argparse
import json
import pathlib
import sys
import tempfile
import time

import emulated
import torch

try:
    import daso
except ModuleNotFoundError:  # as it lies in the build folder, where it is not installed
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "build/release/python"))
    import daso


def parse() -> argparse.Namespace:
    parser = emulated.parser(__doc__)
    parser.add_argument("--strategy", default="daso")
    parser.add_argument("--optimizer", choices=["ours", "torch"], default="ours",
                        help="SGD of the library, as `daso bench step` has it, or of PyTorch")
    parser.add_argument("--skip", type=emulated.whole(1), default=4)
    parser.add_argument("--wait", type=emulated.whole(1), default=2)
    return parser.parse_args()


def seconds_per_step(run: daso.Run, model: torch.nn.Module, options: argparse.Namespace) -> float:
    begun = 0.0
    steps = options.warmup_steps + options.steps
    for _ in run.epochs():
        for step in run.batches(range(steps + 1)):  # the last one agrees, and is not measured
            if step == options.warmup_steps:
                run.world.barrier()
                begun = time.perf_counter()
            if step == steps:
                run.world.barrier()
                seconds = (time.perf_counter() - begun) / options.steps
            run.step(model(torch.zeros(1, requires_grad=True)))
    return seconds


def main() -> None:
    options = parse()
    torch.set_num_threads(1)
    world = daso.init()
    model = emulated.EmulatedModel(options)
    cadence = {"skip": options.skip, "wait": options.wait, "wire": "int8", "schedule": "fixed",
               "warmup_epochs": 0, "cooldown_epochs": 0} if options.strategy == "daso" else {}
    with tempfile.TemporaryDirectory() as folder:
        optimizer = emulated.sgd(model)
        if options.optimizer == "ours":
            optimizer = "sgd"
            cadence |= {"lr": emulated.LEARNING_RATE, "momentum": emulated.MOMENTUM,
                        "lr_schedule": "constant", "lr_warmup_epochs": 0}
        run = daso.Run(model, optimizer, epochs=1, strategy=options.strategy,
                       steps_per_epoch=options.warmup_steps + options.steps + 1,
                       out=world.gather(folder)[0], progress=False, trace="none", **cadence)
        seconds = seconds_per_step(run, model, options)
        world.barrier()
    if world.rank == 0:
        print(json.dumps({"peer": "daso-python", "strategy": options.strategy,
                          "ranks": world.size, "seconds_per_step": round(seconds, 4)}))


main()
