# SPDX-License-Identifier: Apache-2.0
"""Steps whose optimizer evaluates the loss by itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

from daso import _core


def needs_closure(optimizer: torch.optim.Optimizer) -> bool:
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty


class Evaluations:
    """What an optimizer calls in a step for the loss and its gradients, in place of the user's
    function.

    Gradients and loss become their mean over the ranks that the strategy ties together in this
    step, with the same bits on all: LBFGS decides by both where it goes, and whether it asks again.
    """

    def __init__(self, core: _core.LoopRun, model: torch.nn.Module, closure: Callable[[], Any]):
        self._core = core
        self._parameters = [one for one in model.parameters() if one.requires_grad]
        self._closure = closure
        self._number = 0
        self._own: torch.Tensor | None = None  # this rank's loss where the step begins
        self.first: torch.Tensor | None = None  # the mean of it

    def __call__(self) -> torch.Tensor:
        core = self._core
        self._number += 1
        for parameter in self._parameters:
            parameter.grad = None  # so that it shows who calls backward
        with torch.enable_grad():
            loss = self._closure()
        found = any(parameter.grad is not None for parameter in self._parameters)
        own = loss_of(loss)
        if self._own is None:
            self._own = own.detach().to(torch.float64).reshape([])
        # Before gradients are averaged: all ranks come here, or none waits for them there.
        mean = torch.tensor(core.evaluated(self._number, own.item()), dtype=torch.float64)
        core.take_back_gradients()
        core.begin_backward()
        if not found:
            own.backward()
        core.average(self._own)  # whose loss is the step's
        core.clip()
        if self.first is None:
            self.first = mean
        return mean

    @property
    def loss(self) -> torch.Tensor:
        """That of this rank where the step begins; NaN if it was not computed."""
        return torch.tensor(float("nan"), dtype=torch.float64) if self._own is None else self._own

    def end(self) -> None:
        """When the optimizer is done with the step."""
        if self.first is None:
            raise _core.ConfigError("the optimizer did not call the function that it was given")
        self._core.evaluated(0, 0.0)


def loss_of(found: Any) -> torch.Tensor:
    if isinstance(found, float):  # of a function that has called backward
        found = torch.tensor(found)
    if isinstance(found, torch.Tensor) and found.numel() == 1:
        return found
    what = f"{found.numel()} numbers" if isinstance(found, torch.Tensor) else repr(found)
    raise _core.ConfigError(
        "the function given to run.step() returns the loss of the batch, one number, the mean over "
        f"its examples; this one has returned {what}"
    )
