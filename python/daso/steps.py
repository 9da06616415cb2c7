# SPDX-License-Identifier: Apache-2.0
"""A step of a run, by one call or by several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from daso import _core
from daso.batches import first_tensor
from daso.evaluations import Evaluations


class Steps:
    """What a Run does in a step: the loss comes from the body of the loop."""

    def step(self, loss: torch.Tensor | Callable[[], torch.Tensor]) -> torch.Tensor | None:
        """Backward, averaging of gradients, optimizer, exchange of parameters: the four calls
        below in their order. With accumulate=N only every Nth call does more than backward.

        In place of the loss it takes a function that computes it, for optimizers that evaluate it
        several times in a step, as torch.optim.LBFGS does:

            run.step(lambda: F.cross_entropy(model(x), y))

        Each time gradients and loss become their mean over the ranks that the strategy ties
        together in this step. The function may also zero the gradients and call backward(), as
        PyTorch's closures do. Then this returns the mean loss that the step began with.
        """
        if callable(loss):
            return self._step_by(loss)
        self.backward(loss)
        if self._left or self._part < self._core.accumulate:
            return None
        self.average()
        self.update()
        self.exchange()
        return None

    def _step_by(self, closure: Callable[[], torch.Tensor]) -> torch.Tensor:
        self._check_closures()
        self.begin_step()
        back = self._way_back() if self._survives else None
        evaluate = Evaluations(self._core, self.model, closure)
        try:
            if self.optimizer is None:
                evaluate()
                self._core.update()
            else:
                self.optimizer.step(evaluate)
            evaluate.end()
        except _core.PeerError as error:
            if back is not None:
                back()
            self._leave_step(error)
            return evaluate.loss
        self.exchange()
        return evaluate.first

    def _way_back(self) -> Callable[[], None]:
        """What brings model and optimizer back to where they are now."""
        flat = self._core.flat_parameters
        parameters = flat.clone()
        optimizer = None if self.optimizer is None else self._state.copy()

        def back() -> None:
            with torch.no_grad():
                flat.copy_(parameters)
            if optimizer is not None:
                self._state.put_back(optimizer)

        return back

    def _check_closures(self) -> None:
        if self._scaler is not None:
            raise _core.ConfigError(
                "a GradScaler skips steps, which an optimizer that evaluates the loss by itself "
                "cannot: leave out the scaler, or give run.step() the loss"
            )
        if self._core.accumulate > 1:
            raise _core.ConfigError(
                "gradients of several calls cannot accumulate where the optimizer evaluates the "
                "loss by itself: leave out accumulate, and let the function go over all parts"
            )

    def backward(self, loss: torch.Tensor) -> None:
        """Computes the gradients, which are averaged meanwhile. The first call of a step zeroes
        those of the step before; the mean of all its calls counts."""
        if loss.numel() != 1:
            raise _core.ConfigError(
                f"the loss of a batch is one number, the mean over its examples; this one has "
                f"{loss.numel()} numbers"
            )
        self._refuse_needed_closure()
        if self._left:
            return
        self.begin_step()
        core = self._core
        core.take_back_gradients()
        if self._part == 0:
            core.zero_gradients()
            self._loss = None
        self._part += 1
        parts = core.accumulate
        mean = loss if parts == 1 else loss / parts
        value = mean.detach().to(torch.float64)
        self._loss = value if self._loss is None else self._loss + value
        if self._part >= parts:
            self.begin_backward()
        (mean if self._scaler is None else self._scaler.scale(mean)).backward()

    def _refuse_needed_closure(self) -> None:
        if self._needs_closure:
            raise _core.ConfigError(
                f"{type(self.optimizer).__name__} evaluates the loss several times in a step: give "
                "run.step() a function that returns it, as in "
                "run.step(lambda: F.cross_entropy(model(x), y))"
            )

    def begin_backward(self) -> None:
        """Before the last backward of a step, where backward() of this run is not called: gradients
        are averaged while they come."""
        if self._left:
            return
        self.begin_step()
        self._core.take_back_gradients()
        self._core.begin_backward()
        self._armed = True

    def average(self, loss: torch.Tensor | None = None) -> None:
        """Gradients become their mean over the ranks that the strategy ties together in this step.
        The loss is given where backward() of this run was not called."""
        self._refuse_needed_closure()
        if self._left:
            return
        self.begin_step()
        core = self._core
        if loss is not None:
            self._loss = loss.detach().to(torch.float64)
        if self._loss is None:
            raise _core.ConfigError("average() needs the loss of the step: run.average(loss)")
        if not self._armed:
            self.begin_backward()
        self._armed = False
        try:
            core.average(self._loss.reshape([]))
        except _core.PeerError as error:
            return self._leave_step(error)
        if self._scaler is not None and self._unscales:
            self._scaler.unscale_(self.optimizer)
        core.clip()

    def update(self) -> None:
        """The optimizer's step."""
        if self._left:
            return
        if self.optimizer is None:
            self._core.update()
        elif self._scaler is None:
            self.optimizer.step()
        else:
            self._scaler.step(self.optimizer)
            self._scaler.update()

    def exchange(self) -> None:
        """Ends the step: what another node has sent is merged, and what is due is sent."""
        if self._left:
            return
        core = self._core
        if self.optimizer is not None and self._step_done:
            core.update()
        self._step_done = False
        self._in_step = False
        self._stepped = True
        self._part = 0
        core.end_step()
        if self._needs_closure and core.exchanged:
            self._state.forget()
        try:
            if core.after_step():
                self._bar.step()
            if core.epoch_is_done and not self._broken_off:
                self._agree_at_end()
        except _core.PeerError as error:
            self._note_loss(error)

    def _agree_at_end(self) -> None:
        self._core.end_epoch()
        if self._scaler is not None:
            self._agree_on_scale()

    def _agree_on_scale(self) -> None:
        state = self._scaler.state_dict()
        if not state:
            return
        own = torch.tensor([state["scale"], state["_growth_tracker"]], dtype=torch.float64)
        scale, good = self._core.reduce(own, "min").tolist()
        state.update(scale=scale, _growth_tracker=int(good))
        self._scaler.load_state_dict(state)

    def begin_step(self, batch: Any = None) -> None:
        """Begins a step, where that is not left to the first call in it: its time counts from here.
        The size of the first batch tells how many examples a step has."""
        if batch is not None:
            self._count(batch)
        if self._in_step or self._left:
            return
        if self._survives and not self._in_batches:
            raise _core.ConfigError(
                "a run that goes on when nodes are lost gives its batches itself, since those of a "
                "step that is broken off come again: take them from run.batches(loader)"
            )
        self._in_step = True
        core = self._core
        core.begin_step()
        if self.optimizer is None:
            return
        if self._own_rate:
            rate = float(self.optimizer.param_groups[0]["lr"])
            self._rate_before = self._rate
            rising = rate if self._rate is None else max(0.0, 2 * rate - self._rate)
            core.set_rate(rate, rising)
            self._rate = rate
        else:
            for group, scale in zip(self.optimizer.param_groups, self._scales, strict=True):
                group["lr"] = core.rate * scale / self._scales[0]

    def _count(self, batch: Any) -> None:
        if self._counted:
            return
        self._counted = True
        first = first_tensor(batch)
        if first is not None and first.dim() > 0:
            examples = first.shape[0] * self._core.accumulate * self.world.size
            self._core.count_samples(float(examples))
