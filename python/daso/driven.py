# SPDX-License-Identifier: Apache-2.0
"""A run whose loop belongs to another package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from daso import _core
from daso.run import Run


class Driven:
    """Turns the events of a trainer into the calls of a Run. lightning.py and huggingface.py are
    made of it.

    A trainer tells of batches, losses and optimizer steps. When an epoch ends for good is known
    only later, as its evaluation comes after its last step: the next batch, a checkpoint or the end
    of training closes it.
    """

    def __init__(self, run: Run):
        self.run = run
        if run._needs_closure:
            raise _core.ConfigError(
                f"{type(run.optimizer).__name__} evaluates the loss several times in a step, which "
                "a trainer of another package cannot do over several ranks: use daso.Run"
            )
        if run.world._joined.survives:
            raise _core.ConfigError(
                "a trainer of another package cannot go on when a node is lost: leave out "
                "--on-failure continue, or use daso.Run"
            )
        run._unscales = False  # a trainer's own, as are its optimizer steps
        self._open = False  # an epoch
        self._loss: torch.Tensor | None = None  # of the step, so far

    def begin_batch(self, batch: Any) -> None:
        if self._open and self.run.epoch_is_done:
            self.end_epoch()
        if not self._open:
            self.run.begin_epoch()
            self._open = True
        self.run.begin_step(batch)

    def add_loss(self, loss: torch.Tensor) -> None:
        """That of a part of the step, as it is minimized; their sum is the step's."""
        part = loss.detach().to(torch.float64)
        self._loss = part if self._loss is None else self._loss + part

    def average(self) -> None:
        """After the last backward of a step, before gradients are clipped."""
        if self._loss is None:
            raise _core.ConfigError(
                "a training step had no loss: ranks average their gradients in every step, so none "
                "of them can leave one out"
            )
        loss, self._loss = self._loss, None
        self.run.average(loss)

    def record(self, metrics: Mapping[str, Any], prefix: str) -> None:
        """Takes loss and accuracy of an evaluation, by their usual names, as the epoch's result."""
        if not self._open or not self.run.epoch_is_done:
            return
        found = {}
        for key, names in NAMES.items():
            for name in names:
                if prefix + name in metrics:
                    found[key] = float(metrics[prefix + name])
        self.run.evaluate(lambda: found or None)

    def end_epoch(self) -> None:
        if self._open:
            self._open = False
            self.run.end_epoch()

    def finish(self) -> None:
        self.end_epoch()
        self.run.finish()


NAMES = {"loss": ("loss",), "accuracy": ("acc", "accuracy")}


def checked(flags: Mapping[str, Any], package: str, going_on: str) -> dict[str, Any]:
    """The flags of a run, without those that the trainer decides."""
    for name in ("epochs", "steps_per_epoch", "max_steps", "accumulate"):
        if name in flags:
            raise _core.ConfigError(f"{name} is a matter of {package}: give it there")
    if flags.get("resume"):
        raise _core.ConfigError(f"a run of {package} goes on from its own checkpoints: {going_on}")
    if flags.get("ema"):
        raise _core.ConfigError(f"{package} evaluates the model itself, so ema is not supported")
    return {"progress": False, **flags}
