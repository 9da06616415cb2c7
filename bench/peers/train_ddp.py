# SPDX-License-Identifier: Apache-2.0
"""PyTorch DistributedDataParallel on Gloo, doing the job of `daso train --data idx:DIR --model cnn`.

    .venv/bin/python3 bench/peers/train_ddp.py DIR                       one process, the whole batch
    daso run --nodes 4 --ranks-per-node 1 -- .venv/bin/python3 bench/peers/train_ddp.py DIR

Same network, first values by the same rules, same optimizer and learning rate; shuffles and first
values are PyTorch's own, so results agree in the mean over seeds only. Prints one JSON object.

With --checkpoint it goes on from that file where there is one, as a script for torchrun's elastic
restarts does (bench/faults --goodput).
"""
import argparse
import json
import math
import os
import pathlib
import time
import warnings

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

import torch
import torch.distributed
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import idx

WORLD = int(os.environ.get("WORLD_SIZE", "1"))
RANK = int(os.environ.get("RANK", "0"))


def part(folder: pathlib.Path, name: str) -> tuple[torch.Tensor, torch.Tensor]:
    images = idx.read(folder, idx.images(name)).float().div(255).unsqueeze(1)
    return images, idx.read(folder, idx.labels(name)).long()


def cnn(classes: int) -> nn.Module:
    def block(inputs: int, outputs: int, *last: nn.Module) -> list[nn.Module]:
        convolution = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
        return [convolution, nn.BatchNorm2d(outputs), nn.ReLU(), *last]

    return nn.Sequential(*block(1, 32, nn.MaxPool2d(2)), *block(32, 64, nn.MaxPool2d(2)),
                         *block(64, 128), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(128, classes))


def rate(asked: argparse.Namespace, step: int, batches: int) -> float:
    """Linear warm-up of one epoch, then a cosine to 1 %."""
    if step < batches:
        return asked.lr * (step + 1) / batches
    done = (step - batches) / max(1, (asked.epochs - 1) * batches)
    return asked.lr * (1 - 0.99 * (1 - math.cos(math.pi * done)) / 2)


def accuracy(network: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    """Each rank looks at its share of the test part."""
    network.eval()
    with torch.no_grad():
        right = network(images[RANK::WORLD]).argmax(1).eq(labels[RANK::WORLD]).sum().double()
    network.train()
    if WORLD > 1:
        torch.distributed.all_reduce(right)
    return right.item() / len(labels)


def wrap(network: nn.Module, asked: argparse.Namespace) -> nn.Module:
    if WORLD == 1:
        return network
    return DistributedDataParallel(network, bucket_cap_mb=asked.bucket_mb,
                                   gradient_as_bucket_view=True)


def save(asked: argparse.Namespace, model: nn.Module, optimizer, step: int) -> None:
    """Whole or not at all: whoever is killed meanwhile leaves the one before."""
    if RANK == 0:
        draft = asked.checkpoint.with_suffix(".draft")
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                    "step": step}, draft)
        draft.rename(asked.checkpoint)


def load(asked: argparse.Namespace, model: nn.Module, optimizer) -> int:
    """The step to go on with."""
    if not asked.checkpoint or not asked.checkpoint.exists():
        return 0
    state = torch.load(asked.checkpoint)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"]


def note_step(asked: argparse.Namespace, step: int) -> None:
    if asked.clock and RANK == 0:
        with asked.clock.open("a") as file:
            file.write(f"{time.monotonic():.3f} {step}\n")


def train(asked: argparse.Namespace) -> dict:
    folder = pathlib.Path(asked.folder)
    images, labels = part(folder, "train")
    test_images, test_labels = part(folder, "t10k")
    mean, deviation = images.mean(), images.std()
    images, test_images = (images - mean) / deviation, (test_images - mean) / deviation
    torch.manual_seed(asked.seed)
    network = cnn(int(labels.max()) + 1)
    model = wrap(network, asked)
    optimizer = torch.optim.SGD(model.parameters(), lr=asked.lr, momentum=0.9, weight_decay=5e-4)
    batch = asked.batch_size * (1 if WORLD > 1 else asked.ranks)
    batches = len(labels) // (batch * WORLD)
    curve = []
    start = time.monotonic()
    done = load(asked, model, optimizer)
    most = min(asked.max_steps or asked.epochs * batches, asked.epochs * batches)
    for epoch in range(done // batches, asked.epochs):
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(1000 * asked.seed + epoch))
        for b in range(batches):
            step = epoch * batches + b
            if step < done or step >= most:
                continue
            for group in optimizer.param_groups:
                group["lr"] = rate(asked, epoch * batches + b, batches)
            first = (b * WORLD + RANK) * batch
            picked = order[first:first + batch]
            optimizer.zero_grad(set_to_none=WORLD == 1)
            loss = cross_entropy(model(images[picked]), labels[picked])
            loss.backward()
            optimizer.step()
            note_step(asked, step + 1)
            if asked.checkpoint and (step + 1) % asked.checkpoint_every == 0:
                save(asked, model, optimizer, step + 1)
        if step >= most - 1 and most < asked.epochs * batches:
            break
        reached = accuracy(network, test_images, test_labels)
        curve.append([time.monotonic() - start, reached])
    return {"ranks": WORLD, "steps": most, "seconds": time.monotonic() - start,
            "test_accuracy": curve[-1][1] if curve else None, "epochs": curve}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=8, help="per rank")
    parser.add_argument("--ranks", type=int, default=4, help="whose batches one process takes")
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--bucket-mb", type=float, default=25, help="DDP's own default is 25")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--max-steps", type=int, help="ends after so many in all")
    parser.add_argument("--checkpoint", type=pathlib.Path, help="a file to go on from")
    parser.add_argument("--checkpoint-every", type=int, default=50, help="steps")
    parser.add_argument("--clock", type=pathlib.Path, help="file for the times of steps")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    if WORLD > 1:
        torch.distributed.init_process_group("gloo")
    result = train(asked)
    if RANK == 0:
        print(json.dumps(result))
    if WORLD > 1:
        torch.distributed.barrier()  # rank 0 has the store that the others still look at
        torch.distributed.destroy_process_group()


main()
