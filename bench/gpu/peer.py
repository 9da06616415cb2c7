# SPDX-License-Identifier: Apache-2.0
"""PyTorch beside `daso bench train`: the same networks, sizes and optimizers, as one trains them.

    python3 bench/gpu/peer.py --model resnet50 --batch-size 64 --candidates eager,graph,compile

makes all candidates, says {"ready": ...}, and measures whatever standard input names, a line each:
"eager 30" are 30 steps of eager. Each answer is a line of JSON. `bench/gpu/compare` runs it.
With --ddp or --daso it is one of several ranks that train together, measures once and ends.
"""
import argparse
import contextlib
import json
import os
import sys
import tempfile
import time

import models
import torch
import torch.nn.functional as F

CANDIDATES = ("eager", "graph", "compile")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=("resnet50", "transformer"), required=True)
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--precision", choices=("bf16", "fp32"), default="bf16")
    parser.add_argument("--candidates", default="eager")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--embedding", type=int, default=768)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--ddp", type=int, metavar="STEPS", help="measure so many on ranks")
    parser.add_argument("--daso", type=int, metavar="STEPS",
                        help="the same with the Python package daso and a compiled model")
    parser.add_argument("--strategy", default="daso")
    return parser.parse_args()


class Training:
    """A network, its optimizer, and inputs that are there."""

    def __init__(self, options: argparse.Namespace):
        torch.manual_seed(1)
        self.options = options
        self.device = torch.device(options.device)
        self.text = options.model == "transformer"
        if self.text:
            self.model = models.Gpt2(options.classes, options.length, options.layers,
                                     options.embedding, options.heads).to(self.device)
            tokens = torch.randint(options.classes, (options.batch_size, options.length + 1))
            self.inputs = tokens[:, :-1].contiguous().to(self.device)
            self.labels = tokens[:, 1:].contiguous().to(self.device)
        else:
            self.model = models.resnet50(options.classes).to(self.device)
            self.model = self.model.to(memory_format=torch.channels_last)
            images = torch.randn(options.batch_size, 3, options.size, options.size)
            self.inputs = images.to(self.device).to(memory_format=torch.channels_last)
            self.labels = torch.randint(options.classes, (options.batch_size,)).to(self.device)
        self.run = self.model  # what computes, which wrappers replace
        parameters = self.model.parameters()
        if self.text:
            self.optimizer = torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.01, fused=True)
        else:
            self.optimizer = torch.optim.SGD(parameters, lr=1e-3, momentum=0.9,
                                             weight_decay=5e-4, fused=True)

    def autocast(self):
        if self.options.precision == "fp32":
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)

    def step(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        with self.autocast():
            scores = self.run(self.inputs)
            loss = F.cross_entropy(scores.flatten(0, -2), self.labels.flatten())
        loss.backward()
        self.optimizer.step()


class Graph(Training):
    """The whole step in one CUDA graph, as PyTorch's documentation shows it."""

    def __init__(self, options: argparse.Namespace):
        super().__init__(options)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                super().step()
        torch.cuda.current_stream().wait_stream(side)
        self.optimizer.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            super().step()

    def step(self) -> None:
        self.graph.replay()


class Compiled(Training):
    def __init__(self, options: argparse.Namespace):
        super().__init__(options)
        self.run = torch.compile(self.model, mode="reduce-overhead")


def finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def seconds_per_step(training: Training, steps: int) -> float:
    finish(training.device)
    start = time.perf_counter()
    for _ in range(steps):
        training.step()
    finish(training.device)
    return (time.perf_counter() - start) / steps


def say(answer: dict) -> None:
    print(json.dumps(answer), flush=True)


def serve(options: argparse.Namespace) -> None:
    makers = {"eager": Training, "graph": Graph, "compile": Compiled}
    made = {}
    for name in options.candidates.split(","):
        made[name] = makers[name](options)
        seconds_per_step(made[name], options.warmup)
        if options.device != "cpu":
            torch.cuda.empty_cache()  # for the next one, and for other processes
    say({"ready": list(made), "torch": torch.__version__})
    for line in sys.stdin:
        name, steps = line.split()
        seconds_per_step(made[name], 2)  # its caches are cold: another has had the device
        say({"candidate": name, "steps": int(steps),
             "seconds_per_step": seconds_per_step(made[name], int(steps))})


def train_together(options: argparse.Namespace) -> None:
    torch.distributed.init_process_group("gloo")
    training = Training(options)
    training.run = torch.nn.parallel.DistributedDataParallel(training.model,
                                                             gradient_as_bucket_view=True)
    seconds_per_step(training, options.warmup)
    torch.distributed.barrier()
    seconds = torch.tensor([seconds_per_step(training, options.ddp)])
    torch.distributed.all_reduce(seconds, torch.distributed.ReduceOp.MAX)
    if torch.distributed.get_rank() == 0:
        say({"candidate": "ddp", "steps": options.ddp, "seconds_per_step": seconds.item(),
             "ranks": torch.distributed.get_world_size()})
    torch.distributed.destroy_process_group()


def train_with_daso(options: argparse.Namespace) -> None:
    import daso  # what the others do without

    world = daso.init(device=options.device)
    options.device = str(world.device)
    training = Training(options)
    compiled = torch.compile(training.model)
    cadence = {"skip": 4, "wait": 1, "schedule": "fixed", "warmup_epochs": 0,
               "cooldown_epochs": 0} if options.strategy == "daso" else {}
    steps = options.warmup + options.daso
    marks = []  # where the measured steps begin and end
    with tempfile.TemporaryDirectory() as folder:
        run = daso.Run(compiled, training.optimizer, epochs=1, steps_per_epoch=steps + 1,
                       strategy=options.strategy, out=world.gather(folder)[0], progress=False,
                       trace="none", **cadence)
        for _ in run.epochs():
            for step in run.batches(range(steps + 1)):  # the last one agrees, and is not measured
                if step in (options.warmup, steps):
                    finish(training.device)
                    world.barrier()
                    marks.append(time.perf_counter())
                with training.autocast():
                    loss = F.cross_entropy(compiled(training.inputs), training.labels)
                run.step(loss)
        world.barrier()
    if world.rank == 0:
        say({"candidate": f"python {options.strategy}", "steps": options.daso,
             "seconds_per_step": (marks[1] - marks[0]) / options.daso, "ranks": world.size})


def main() -> None:
    options = parse()
    torch.backends.cudnn.benchmark = True
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    if options.ddp:
        train_together(options)
    elif options.daso:
        train_with_daso(options)
    else:
        serve(options)


main()
