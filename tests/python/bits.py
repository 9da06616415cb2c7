# SPDX-License-Identifier: Apache-2.0
"""The run of `daso train --model mlp --data idx:DIGITS` again, as a loop in Python.

bits.py begin FOLDER DIGITS   writes FOLDER/first.safetensors, where both begin
bits.py train FOLDER DIGITS   trains, and compares with FOLDER/program.safetensors
"""

import gzip
import json
import pathlib
import struct
import sys

import torch
import torch.nn.functional as F
from torch import nn

import daso

WHAT, FOLDER, DIGITS = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
SIDE = 8


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(SIDE * SIDE, 256)
        self.fc2 = nn.Linear(256, 256)
        self.fc3 = nn.Linear(256, 10)

    def forward(self, images):
        hidden = self.fc1(images.flatten(1)).relu_()
        return self.fc3(self.fc2(hidden).relu_())


def values(name: str, header: int) -> torch.Tensor:
    return torch.frombuffer(
        bytearray(gzip.open(DIGITS / f"{name}.gz").read()[header:]), dtype=torch.uint8
    )


def safetensors(path: pathlib.Path) -> tuple[dict, dict]:
    """Metadata and tensors, read by the definition of the format."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        tensors[name] = torch.frombuffer(bytearray(content[begin:end]), dtype=torch.float32)
    return metadata, tensors


def train() -> None:
    metadata, expected = safetensors(FOLDER / "program.safetensors")
    mean, deviation = (torch.tensor(json.loads(metadata[key])) for key in ("mean", "deviation"))
    images = values("train-images-idx3-ubyte", 16).view(-1, 1, SIDE, SIDE)
    images = (images.float() / 255 - mean) * (1 / deviation)
    labels = values("train-labels-idx1-ubyte", 8).long()
    _, first = safetensors(FOLDER / "first.safetensors")
    model = Mlp()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(first[name].view_as(parameter))
    sampler = daso.Sampler(len(labels), batch_size=16)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(images, labels), batch_size=16, sampler=sampler
    )
    run = daso.Run(
        model,
        "sgd",
        steps_per_epoch=len(sampler) // 16,
        epochs=2,
        batch_size=16,
        lr=0.05,
        strategy="daso",
        out=FOLDER / "python",
    )
    for _ in run.epochs():
        for x, y in run.batches(loader):
            run.step(F.cross_entropy(model(x), y))
    if daso.init().rank == 0:
        found = {name: value.detach().flatten() for name, value in model.named_parameters()}
        off = {name: (found[name] - expected[name]).abs().max().item() for name in expected}
        print("same" if all(torch.equal(found[k], expected[k]) for k in expected) else off)


if __name__ == "__main__":
    torch.set_num_threads(1)
    if WHAT == "begin":
        torch.manual_seed(3)
        tensors = {name: value.detach() for name, value in Mlp().named_parameters()}
        daso._core.write_tensors(str(FOLDER / "first.safetensors"), tensors)
    else:
        train()
