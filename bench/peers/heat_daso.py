# SPDX-License-Identifier: Apache-2.0
"""DASO by its authors (package heat, unchanged), doing the emulated job of `daso bench step`.

    bench/peers/mpi_run --nodes 4 --ranks-per-node 2 [--cluster NAME] -- \\
        .venv-peers/bin/python3 bench/peers/heat_daso.py

Only the accelerator is emulated (emulated.py), so what heat asks of CUDA is answered here: as many
devices as ranks on a node, tensors in the host's memory, and Gloo in a node where it would have
NCCL. Gradients are averaged by PyTorch's DDP in each node, parameters between nodes by heat over
MPI. Rank 0 prints one JSON object.
"""
import argparse
import importlib.util
import json
import os
import sys
import threading
import time

import emulated
import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel

PAUSE = 0.0005  # seconds between two looks at MPI while an exchange is under way
LIMIT = 60      # seconds, for the thread to end; mpi_run limits MPI's own waits


def parse() -> argparse.Namespace:
    parser = emulated.parser(__doc__)
    parser.add_argument("--phase", choices=["cycling", "blocking"], default="cycling",
                        help="cycling: asynchronous; blocking: as in heat's warm-up")
    parser.add_argument("--skip", type=emulated.whole(1), default=4,
                        help="steps from one exchange to the next when cycling; default: 4")
    parser.add_argument("--wait", type=emulated.whole(1), default=1,
                        help="steps from an exchange's start to its merge; default: 1")
    parser.add_argument("--progress", action="store_true",
                        help="keep MPI's exchanges moving while the job computes; heat does not")
    parser.add_argument("--check", action="store_true",
                        help="also see that parameters are what heat's rule makes of them")
    options = parser.parse_args()
    if options.wait >= options.skip:
        parser.error(f"--wait is less than --skip, {options.skip}, got {options.wait}")
    size = os.environ.get("LOCAL_WORLD_SIZE", "")
    if not size.isdigit() or int(size) < 2 or "OMPI_COMM_WORLD_SIZE" not in os.environ:
        parser.error("heat's DASO takes MPI and at least 2 ranks on a node; start it by "
                     "bench/peers/mpi_run")
    if not all(importlib.util.find_spec(name) for name in ("heat", "mpi4py")):
        parser.error("this Python has no heat; bench/peers/install makes one in .venv-peers")
    options.ranks_per_node = int(size)
    # What torchrun and `daso run` set, MPI does not; the emulated job reads it.
    os.environ["WORLD_SIZE"] = os.environ["OMPI_COMM_WORLD_SIZE"]
    node = int(os.environ["OMPI_COMM_WORLD_RANK"]) // options.ranks_per_node
    os.environ["GROUP_RANK"] = str(node)
    return options


# --- what stands in for CUDA ---

class NodeDdp(DistributedDataParallel):
    """heat names a device for DDP, and leaves its buckets at their default."""

    bucket_mb = 25.0

    def __init__(self, module: torch.nn.Module, device_ids: list[int]):
        super().__init__(module, bucket_cap_mb=self.bucket_mb, gradient_as_bucket_view=True)


def replace_cuda(options: argparse.Namespace) -> None:
    torch.cuda.device_count = lambda: options.ranks_per_node
    torch.cuda.set_device = lambda device: None
    NodeDdp.bucket_mb = options.bucket_mb
    torch.nn.parallel.DistributedDataParallel = NodeDdp


def join_node(world, ranks_per_node: int) -> None:
    """Makes PyTorch's world the node's, as heat wants it."""
    node = world.Split(world.rank // ranks_per_node, world.rank)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    store = None
    if node.rank == 0:
        store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    port = node.bcast(store.port if store else None)
    if not store:
        store = torch.distributed.TCPStore("127.0.0.1", port)
    torch.distributed.init_process_group("gloo", store=store, rank=node.rank, world_size=node.size)


# --- progress ---

class Progress(threading.Thread):
    """MPI moves bytes only in calls to it; this makes such calls while an exchange is under way."""

    def __init__(self, optimizer, alone):
        super().__init__(daemon=True)
        self.optimizer = optimizer
        self.alone = alone  # a communicator of this rank only: nothing is ever found there
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.is_set():
            if self.optimizer._prev_params:
                self.alone.Iprobe()
            time.sleep(PAUSE)


# --- whether it does its work ---

def by_the_rule(options: argparse.Namespace, nodes: int, steps: int) -> list[float]:
    """Every node's parameters, all of which are alike, after steps of cycling: SGD with momentum,
    and sums over nodes, sent at an exchange's start, whose parts weigh 1 against 2 * wait of one's
    own.
    """
    size = options.ranks_per_node
    gradients = [emulated.GRADIENT * (1 + node * size + (size - 1) / 2) for node in range(nodes)]
    parameters, velocities, sent = [0.0] * nodes, [0.0] * nodes, None
    for step in range(steps):
        velocities = [emulated.MOMENTUM * v + g for v, g in zip(velocities, gradients)]
        parameters = [p - emulated.LEARNING_RATE * v for p, v in zip(parameters, velocities)]
        starts = step % options.skip == 0
        total = sum(parameters)
        # What would be due just before a start, heat merges just after it.
        due = starts or (step % options.skip == options.wait < options.skip - 1)
        if due and sent is not None:
            own = 2 * options.wait
            parameters = [(own * p + sent) / (own + nodes) for p in parameters]
            sent = None
        if starts:
            sent = total
    return parameters


def check_merged(world, model: emulated.EmulatedModel, options: argparse.Namespace) -> float:
    """How far apart the nodes are between two exchanges."""
    size = options.ranks_per_node
    ranks = world.allgather(emulated.edges(model))
    if options.phase == "cycling":
        wanted = by_the_rule(options, world.size // size, options.warmup_steps + options.steps)
        for rank, found in enumerate(ranks):
            if any(abs(edge / wanted[rank // size] - 1) > 1e-4 for edge in found):
                raise emulated.Mistake(f"rank {rank} has parameters from {min(found)} to "
                                       f"{max(found)}, by heat's rule {wanted[rank // size]}")
    return emulated.spread(ranks)


def check_agreed(world, model: emulated.EmulatedModel) -> None:
    apart = emulated.spread(world.allgather(emulated.edges(model)))
    if apart != 0:
        raise emulated.Mistake(f"ranks are {apart} apart after an exchange that blocks")


# --- the job ---

def make_optimizer(heat, model: torch.nn.Module, options: argparse.Namespace):
    # No warm-up and no cool-down: the phase is chosen here. The epoch ends some steps after all
    # that is measured, because heat waits less towards its end and then blocks.
    optimizer = heat.optim.DASO(emulated.sgd(model), total_epochs=2, warmup_epochs=0,
                                cooldown_epochs=0)
    optimizer.device = "cpu"
    optimizer.last_batch = options.warmup_steps + options.steps + options.skip
    if options.phase == "cycling":
        optimizer.epoch_loss_logic(1.0)  # heat's own way to cycling, with skip 4 and wait 1
        optimizer.global_skip = options.skip
        optimizer.batches_to_wait = options.wait
    return optimizer


def run(options: argparse.Namespace) -> dict:
    import heat
    from mpi4py import MPI

    replace_cuda(options)
    world = MPI.COMM_WORLD
    join_node(world, options.ranks_per_node)
    model = emulated.EmulatedModel(options)
    if options.check:
        emulated.make_ranks_differ(model, world.rank)
    optimizer = make_optimizer(heat, model, options)
    wrapped = heat.nn.DataParallelMultiGPU(model, optimizer)
    if options.progress:
        progress = Progress(optimizer, MPI.COMM_SELF)
        progress.start()
    seconds = emulated.seconds_per_step(wrapped, optimizer, options, world.Barrier)
    result = {"peer": "heat-daso", "heat": heat.__version__, "phase": options.phase,
              "skip": options.skip, "wait": options.wait, "progress": options.progress,
              "bucket_mb": options.bucket_mb, "ranks": world.size,
              "seconds_per_step": round(seconds, 4)}
    if options.check:
        result["apart"] = check_merged(world, model, options)
    while optimizer.epoch == 0:  # its end merges what is under way
        emulated.one_step(wrapped, optimizer)
    if options.check:
        check_agreed(world, model)
    if options.progress:
        progress.ended.set()
        progress.join(LIMIT)
    torch.distributed.destroy_process_group()
    return result if world.rank == 0 else {}


def main() -> None:
    options = parse()
    torch.set_num_threads(1)
    try:
        result = run(options)
    except BaseException as error:
        # The others would wait for this rank for ever.
        from mpi4py import MPI
        print(f"heat_daso: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        MPI.COMM_WORLD.Abort(1)
    if result:
        print(json.dumps(result), flush=True)


main()
