# SPDX-License-Identifier: Apache-2.0
"""A loop of one's own, as it is started by torchrun.

    python torchrun_plain.py
    daso run --nodes 2 -- python torchrun_plain.py
    torchrun --nproc-per-node 2 torchrun_plain.py

--out names the run's folder.
"""

import argparse

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

import daso

if __name__ == "__main__":
    words = argparse.ArgumentParser()
    words.add_argument("--out", default="runs/torchrun_plain")
    words = words.parse_args()

    world = daso.init()
    torch.manual_seed(1)
    x = torch.randn(2048, 20)
    data = TensorDataset(x, (x @ torch.randn(20, 5)).argmax(1))
    loader = DataLoader(data, batch_size=32, sampler=daso.Sampler(data, batch_size=32))
    layers = [torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 5)]
    model = torch.nn.Sequential(*layers).to(world.device)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)

    def accuracy() -> float:
        inputs, labels = (part.to(world.device) for part in data.tensors)
        return (model(inputs).argmax(1) == labels).float().mean().item()

    run = daso.Run(model, optimizer, epochs=5, steps_per_epoch=len(loader), out=words.out)
    for _ in run.epochs():
        for inputs, labels in run.batches(loader):
            run.step(F.cross_entropy(model(inputs), labels))
        run.evaluate(accuracy)
    run.save(run.out + "/model.safetensors")
    print(f"rank {world.rank} of {world.size}: accuracy {accuracy():.4f}")
