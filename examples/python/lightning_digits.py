# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits with PyTorch Lightning.

    python lightning_digits.py
    daso run --nodes 2 -- python lightning_digits.py
    torchrun --nproc-per-node 2 lightning_digits.py

It reads tests/digits of the sources, or the folder that is named; --out names the run's folder.
"""

import argparse
import gzip
import pathlib

import torch
import torch.nn.functional as F
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader, TensorDataset

from daso.lightning import DasoStrategy

DIGITS = pathlib.Path(__file__).resolve().parents[2] / "tests" / "digits"


def digits(folder: pathlib.Path, part: str) -> TensorDataset:
    def values(name: str, header: int) -> torch.Tensor:
        content = gzip.open(folder / f"{part}-{name}-ubyte.gz").read()
        return torch.frombuffer(bytearray(content[header:]), dtype=torch.uint8)

    return TensorDataset(values("images-idx3", 16).view(-1, 64) / 255, values("labels-idx1", 8).long())


class Digits(LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(64, 64), torch.nn.BatchNorm1d(64), torch.nn.ReLU(), torch.nn.Linear(64, 10)
        )

    def training_step(self, batch, _):
        images, labels = batch
        return F.cross_entropy(self.net(images), labels)

    def validation_step(self, batch, _):
        images, labels = batch
        scores = self.net(images)
        self.log("val_loss", F.cross_entropy(scores, labels), sync_dist=True)
        self.log("val_acc", (scores.argmax(1) == labels).float().mean(), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 3e-3)


if __name__ == "__main__":
    words = argparse.ArgumentParser()
    words.add_argument("--digits", type=pathlib.Path, default=DIGITS)
    words.add_argument("--out", default="runs/lightning_digits")
    words = words.parse_args()
    train = DataLoader(digits(words.digits, "train"), batch_size=16, shuffle=True)
    test = DataLoader(digits(words.digits, "t10k"), batch_size=100)
    strategy = DasoStrategy(strategy="daso", out=words.out, progress=True)
    options = {"enable_progress_bar": False, "default_root_dir": words.out}
    trainer = Trainer(strategy=strategy, max_epochs=6, gradient_clip_val=1.0, **options)
    trainer.fit(Digits(), train, test)
    print(f"rank {strategy.world.rank}: accuracy {trainer.callback_metrics['val_acc']:.4f}")
