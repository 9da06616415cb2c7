# SPDX-License-Identifier: Apache-2.0
"""PyTorch DistributedDataParallel on Gloo, doing the emulated job of `daso bench step`.

    daso run --nodes 4 --ranks-per-node 2 [--cluster NAME] -- .venv/bin/python3 bench/peers/ddp.py

Only the accelerator is emulated (emulated.py): buckets, hooks, all-reduce and optimizer are real.
Rank 0 prints one JSON object.
"""
import argparse
import json

import emulated
import torch
import torch.distributed
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.nn.parallel import DistributedDataParallel


def parse() -> argparse.Namespace:
    parser = emulated.parser(__doc__)
    parser.add_argument("--hook", choices=["none", "bf16", "off"], default="none",
                        help="none: fp32; bf16: DDP's hook of this name; off: no communication")
    return parser.parse_args()


def wrap(model: torch.nn.Module, options: argparse.Namespace) -> torch.nn.Module:
    if options.hook == "off":
        return model
    wrapped = DistributedDataParallel(model, bucket_cap_mb=options.bucket_mb,
                                      gradient_as_bucket_view=True)
    if options.hook == "bf16":
        wrapped.register_comm_hook(None, bf16_compress_hook)
    return wrapped


def main() -> None:
    options = parse()
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    model = wrap(emulated.EmulatedModel(options), options)
    seconds = emulated.seconds_per_step(model, emulated.sgd(model), options,
                                        torch.distributed.barrier)
    if torch.distributed.get_rank() == 0:
        print(json.dumps({"peer": "ddp", "hook": options.hook, "bucket_mb": options.bucket_mb,
                          "ranks": torch.distributed.get_world_size(),
                          "seconds_per_step": round(seconds, 4)}))
    torch.distributed.destroy_process_group()


main()
