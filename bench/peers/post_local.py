# SPDX-License-Identifier: Apache-2.0
"""PyTorch's post-local SGD on Gloo, doing the emulated job of `daso bench step`.

    daso run --nodes 4 --ranks-per-node 2 [--cluster NAME] -- \\
        .venv/bin/python3 bench/peers/post_local.py

Gradients are averaged in each node, parameters over all ranks once in --period steps, both by
PyTorch's own parts. Only the accelerator is emulated (emulated.py). Rank 0 prints one JSON object.
"""
import argparse
import json
import os
import sys

import emulated
import torch
import torch.distributed
from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import (PostLocalSGDState,
                                                                            post_localSGD_hook)
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer
from torch.nn.parallel import DistributedDataParallel

# Steps of plain DDP at the start. The hook and the averager are told alike: PyTorch does not notice
# where they differ, and then averages too little.
GLOBAL_STEPS = 2


def parse() -> argparse.Namespace:
    parser = emulated.parser(__doc__)
    parser.add_argument("--period", type=emulated.whole(1), default=4,
                        help="steps from one average of the parameters to the next; default: 4")
    parser.add_argument("--check", action="store_true",
                        help="also see that all that should be averaged is")
    options = parser.parse_args()
    if options.warmup_steps <= GLOBAL_STEPS:
        parser.error(f"--warmup-steps is more than {GLOBAL_STEPS}, the steps of plain DDP at the "
                     f"start, got {options.warmup_steps}")
    return options


def wrap(model: torch.nn.Module, options: argparse.Namespace) -> torch.nn.Module:
    wrapped = DistributedDataParallel(model, bucket_cap_mb=options.bucket_mb,
                                      gradient_as_bucket_view=True)
    node, _ = torch.distributed.new_subgroups(int(os.environ["LOCAL_WORLD_SIZE"]))
    wrapped.register_comm_hook(PostLocalSGDState(None, node, GLOBAL_STEPS), post_localSGD_hook)
    return wrapped


def check(model: torch.nn.Module, optimizer: PostLocalSGDOptimizer, period: int) -> list[float]:
    """How far apart the ranks are after each step of a period."""
    between = []
    for _ in range(period):
        emulated.one_step(model, optimizer)
        ranks = [None] * torch.distributed.get_world_size()
        torch.distributed.all_gather_object(ranks, emulated.edges(model.module))
        if emulated.spread_in_nodes(ranks, int(os.environ["LOCAL_WORLD_SIZE"])) != 0:
            raise emulated.Mistake("the ranks of a node have different parameters")
        between.append(emulated.spread(ranks))
    several = int(os.environ["LOCAL_WORLD_SIZE"]) < len(ranks)
    if several and [spread == 0 for spread in between].count(True) != 1:
        raise emulated.Mistake(f"nodes agree after one step of {period}, but are {between} apart")
    return between


def main() -> int:
    options = parse()
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    model = emulated.EmulatedModel(options)
    if options.check:
        emulated.make_ranks_differ(model, rank)
    model = wrap(model, options)
    optimizer = PostLocalSGDOptimizer(emulated.sgd(model),
                                      PeriodicModelAverager(options.period, GLOBAL_STEPS))
    seconds = emulated.seconds_per_step(model, optimizer, options, torch.distributed.barrier)
    result = {"peer": "post-local", "period": options.period, "bucket_mb": options.bucket_mb,
              "ranks": torch.distributed.get_world_size(), "seconds_per_step": round(seconds, 4)}
    try:
        if options.check:
            result["apart"] = check(model, optimizer, options.period)
    except emulated.Mistake as mistake:
        print(f"post_local: {mistake}", file=sys.stderr)
        return 1
    if rank == 0:
        print(json.dumps(result))
    torch.distributed.destroy_process_group()
    return 0


sys.exit(main())
