# SPDX-License-Identifier: Apache-2.0
"""tests/digits, trained by ten lines: digits.py FOLDER SEED OUT"""

import gzip
import pathlib
import sys

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

import daso


def values(name: str, header: int) -> torch.Tensor:
    content = gzip.open(pathlib.Path(sys.argv[1]) / f"{name}-ubyte.gz").read()
    return torch.frombuffer(bytearray(content[header:]), dtype=torch.uint8)


torch.set_num_threads(1)
pictures = [values(f"{part}-images-idx3", 16).view(-1, 64).float() / 255 for part in ("train", "t10k")]
mean, deviation = pictures[0].mean(), pictures[0].std()
train, test = ((one - mean) / deviation for one in pictures)
train_labels, test_labels = (values(f"{part}-labels-idx1", 8).long() for part in ("train", "t10k"))

seed = int(sys.argv[2])
torch.manual_seed(seed)
model = torch.nn.Sequential(
    torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)
)
data = TensorDataset(train, train_labels)
loader = DataLoader(data, batch_size=16, sampler=daso.Sampler(data, batch_size=16, seed=seed))
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=5e-4)
run = daso.Run(model, optimizer, steps_per_epoch=len(loader), epochs=20, out=sys.argv[3],
               lr=0.1, lr_schedule="cosine", seed=seed)
for epoch in run.epochs():
    for x, y in run.batches(loader):
        run.step(F.cross_entropy(model(x), y))
    run.evaluate(lambda: (model(test).argmax(1) == test_labels).float().mean())
if daso.init().rank == 0:
    print(f"accuracy: {run.summary['test_accuracy']:.4f}")
