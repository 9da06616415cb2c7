# SPDX-License-Identifier: Apache-2.0
"""A training run whose loop is the user's."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import tomllib
import weakref
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any

import torch

from daso import _core
from daso.batches import Batches
from daso.evaluations import Evaluations, needs_closure
from daso.flags import words_of
from daso.keeping import Keeping
from daso.moments import OptimizerState
from daso.progress import Bar
from daso.world import World, init

_NEVER = float("nan")


class Run:
    """Trains a model with all ranks of the world, by a loop of your own.

        run = daso.Run(model, optimizer, epochs=10, steps_per_epoch=len(loader))
        for epoch in run.epochs():
            for x, y in run.batches(loader):
                loss = F.cross_entropy(model(x), y)
                run.step(loss)
            run.evaluate(lambda: accuracy(model, test))

    model             any nn.Module with float32 parameters, on world.device. Its parameters become
                      views of one flat tensor; rank 0's values become everybody's.
    optimizer         a torch.optim.Optimizer of the model's parameters, or the name of one of
                      ours: "sgd", "adamw", "lars", "lamb"
    steps_per_epoch   optimizer steps of an epoch, the same on all ranks: a number, or the loader,
                      for as many as it has batches; these are others where nodes come and go
    scaler            a torch.amp.GradScaler, where the loss is scaled
    also              objects with state_dict() and load_state_dict() that checkpoints are to keep,
                      by name, such as a learning-rate scheduler
    progress          show a bar on a terminal and a line per epoch
    flags             every flag of `daso train` that concerns a run, by its name: strategy="sync",
                      out="runs/mine", checkpoint_every="5minutes", clip_norm=1.0, ...

    Besides a name, schedule takes a list of (phase, skip, wait), one for each epoch.

    The learning rate is the optimizer's own, with whatever changes it, unless a flag such as lr or
    lr_schedule is given: then it is set in every step.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer | str = "sgd",
        *,
        steps_per_epoch: int | Sized,
        scaler: torch.amp.GradScaler | None = None,
        also: dict[str, Any] | None = None,
        progress: bool = True,
        data: str = "own data",
        world: World | None = None,
        **flags: Any,
    ):
        self.world = world or init()
        self.model = getattr(model, "_orig_mod", model)  # of a compiled one
        self.optimizer = None if isinstance(optimizer, str) else optimizer
        self._scaler = scaler
        self._unscales = True  # or else whoever drives the loop does
        self._step_done = False  # by the optimizer, in this step
        self._part = 0  # of the step, where gradients accumulate
        self._in_step = False
        self._stepped = False  # once: before, nothing is known of a last step
        self._watching = False  # signals
        self._armed = False
        self._loss: torch.Tensor | None = None
        self._rate: float | None = None  # of the step before, where it is not the plan's
        self._counted = False
        self._steps = steps_per_epoch
        self._survives: bool = self.world._joined.survives
        self._left = False  # to the next view, in a step that is not done
        self._broken = False  # what ranks do together, after a step
        self._epoch = -1  # that the loop is in
        self._elsewhere = False  # the run went on in another epoch
        self._given: list[Any] = []  # by who had the run there: the optimizer's state, the loop's
        self._score: Callable[[], Any] | None = None  # that has evaluated this epoch
        self._in_batches = False
        self._before: tuple[Any, Any, Any] | None = None  # the step
        self._rate_before: float | None = None
        self.summary: dict[str, Any] | None = None

        parameters = list(self.model.named_parameters(remove_duplicate=False))
        buffers = list(self.model.named_buffers(remove_duplicate=False))
        if not parameters:
            raise _core.ConfigError("the model has no parameters")
        listed = []  # the schedule, where it names every epoch
        if isinstance(flags.get("schedule"), (list, tuple)):
            listed = [tuple(one) for one in flags.pop("schedule")]
        self._keeping = Keeping(self, also or {})
        self._needs_closure = self.optimizer is not None and needs_closure(self.optimizer)
        self._own_rate = self._prepare_optimizer(optimizer, flags, parameters)
        self._core = _core.LoopRun(
            self.world._joined,
            weakref.proxy(self),
            parameters,
            buffers,
            words_of(flags),
            {
                "model": type(self.model).__name__,
                "data": data,
                "optimizer": "" if self.optimizer is None else type(self.optimizer).__name__,
                # LBFGS tries steps that may be too long, and then shorter ones.
                "finite_gradients": scaler is None and not self._needs_closure,
                "schedule": listed,
            },
        )
        if self._survives:
            if self.world._has_run:
                raise _core.ConfigError("a job that goes on when nodes are lost has one daso.Run")
            self.world._has_run = True
            self._enter()
            self._given = []
        if self._needs_closure:
            self._check_closures()
        self._bar = Bar(self, progress)

    def _prepare_optimizer(self, optimizer, flags, parameters) -> bool:
        """Whether the learning rate is the optimizer's own."""
        if self.optimizer is None:
            flags["optimizer"] = optimizer
            return False
        names = {}
        for name, parameter in parameters:
            names.setdefault(parameter, name)
        for group in self.optimizer.param_groups:
            for parameter in group["params"]:
                if parameter not in names:
                    raise _core.ConfigError(
                        "the optimizer has a parameter that is none of the model's: make it from "
                        "model.parameters()"
                    )
        self._state = OptimizerState(self.optimizer, names, moments=not self._needs_closure)
        self.optimizer.register_step_post_hook(weakly(self._note_step))
        if any(name == "lr" or name == "base_lr" or name.startswith("lr_") for name in flags):
            self._scales = [group["lr"] for group in self.optimizer.param_groups]
            flags.setdefault("lr", self._scales[0])
            return False
        group = self.optimizer.param_groups[0]
        flags["lr"] = max(float(group.get(key, 0)) for key in ("lr", "initial_lr", "max_lr"))
        flags["lr_schedule"] = "constant"
        flags["lr_warmup_epochs"] = 0
        return True

    # The loop.

    def epochs(self) -> Iterator[int]:
        """The numbers of the epochs that are left, from 0. When the last one is over, the run's
        folder holds its last checkpoint, summary and report.

        A signal to stop (Ctrl-C, SIGTERM, SIGUSR1) lets the ranks save after the same step; then
        this raises KeyboardInterrupt for Ctrl-C, and else SystemExit with code 75.
        """
        try:
            while True:
                while not self.over:
                    yield self.begin_epoch()
                    self.end_epoch()
                if not self._survives or self._concluded():
                    break
        finally:
            self.release_signals()
        self.finish()

    # The same by single calls, for a loop that somebody else drives, such as a trainer of another
    # package:
    #
    #   while not run.over:
    #       run.begin_epoch()
    #       while not run.epoch_is_done:
    #           run.begin_step(batch)
    #           ...                     # forward
    #           run.begin_backward()    # gradients are averaged while they come; may be left out
    #           loss.backward()
    #           run.average(loss)
    #           optimizer.step()
    #           run.exchange()
    #       run.end_epoch()
    #   run.finish()

    def begin_epoch(self) -> int:
        """Begins the next epoch, or goes on with the one that was left, and returns its number.
        From here to finish() signals ask the run to stop."""
        if not self._watching:
            self._core.watch_signals()
            self._watching = True
        self.summary = self._score = None
        while True:
            if self._broken_off:
                self._next_view()
            self._core.begin_turn()
            self._reach_end()
            if not self._broken_off:
                break
        self._epoch = self._core.epoch
        self._elsewhere = False
        self._given = []
        return self._epoch

    def end_epoch(self) -> None:
        """After the last step of the epoch, and its evaluation, or where a signal has stopped it."""
        core = self._core
        if self._broken_off:
            self._go_on_evaluated()
        while self.epoch_is_done and not self._elsewhere:
            try:
                core.close_epoch()
                self._bar.epoch()
                break
            except _core.PeerError as error:
                self._note_loss(error)
            self._go_on_evaluated()
        if self._elsewhere:
            return self._take_given()
        if not self.epoch_is_done and not core.stopping and not core.finished:
            raise _core.ConfigError(
                f"an epoch has {core.steps_per_epoch} steps, and the loop left it after "
                f"{core.batch}: go on to the end of run.batches(), or give another steps_per_epoch"
            )
        core.end_turn()

    def finish(self) -> dict[str, Any]:
        """Ends the run: the last checkpoint, summary and report are written. Where a signal has
        stopped it this raises KeyboardInterrupt for Ctrl-C, and else SystemExit with code 75."""
        self.release_signals()
        if self.summary is None and not self._concluded():
            raise _core.PeerError("a node was lost, and the run has steps left: use run.epochs()")
        self._bar.end()
        if self._core.stopping and not self._core.finished:
            if self._core.signal == signal.SIGINT:
                raise KeyboardInterrupt
            raise SystemExit(self._core.stopped_exit)
        return self.summary

    def _concluded(self) -> bool:
        """Writes what a run leaves. False: a node was lost meanwhile, and steps are left to do."""
        while True:
            if self._broken_off:
                self._next_view()
                if not self.over:
                    return False
            try:
                self.summary = json.loads(self._core.finish())
                return True
            except _core.PeerError as error:
                self._note_loss(error)

    def release_signals(self) -> None:
        """Signals do again what they did before begin_epoch(); finish() does this, and whoever
        leaves the loop by an exception calls it."""
        if self._watching:
            self._core.release_signals()
            self._watching = False

    @property
    def over(self) -> bool:
        """No epoch is left, or a signal has asked to stop."""
        return self._core.finished or self._core.stopping

    @property
    def stopping(self) -> bool:
        """A signal has asked to stop: all ranks have saved after the same step, and leave the
        loop."""
        return self._core.stopping

    @property
    def epoch_is_done(self) -> bool:
        """The last step of the epoch is behind us."""
        return self._stepped and not self._in_step and self._core.epoch_is_done

    def batches(self, loader: Iterable) -> Iterator[Any]:
        """The batches of this epoch that are left, on world.device: those of the loader, as many
        as the epoch's steps take. A sampler with set_epoch() is told the epoch."""
        core = self._core
        epoch = core.epoch
        batches = Batches(self._keeping, loader, epoch, again=self._survives)
        taken = 0
        self._in_batches = True
        try:
            while (
                not core.stopping
                and not self._elsewhere
                and core.epoch == epoch
                and core.batch < core.steps_per_epoch
            ):
                self.begin_step()
                first = core.batch * core.accumulate
                core.begin_data()
                try:
                    batch = batches.take(first + self._part, first, self.world._seat)
                except StopIteration:
                    raise _core.ConfigError(
                        f"the loader ended after {taken} batches: an epoch has "
                        f"{core.steps_per_epoch} steps of {core.accumulate}"
                    ) from None
                finally:
                    core.end_data()
                taken += 1
                batch = moved(batch, self.world.device)
                self._count(batch)
                before = (core.step, self._part)
                if self._survives and self._part == 0:
                    self._remember()
                yield batch
                if self._broken_off:
                    self._go_on()
                    continue
                if (core.step, self._part) == before:
                    raise _core.ConfigError("a batch had no step: call run.step(loss) for each")
                if self.epoch_is_done:
                    return
        finally:
            self._in_batches = False

    # Where nodes may be lost (`daso run --on-failure continue`). The world of a view ends with it;
    # model, optimizer and place stay, and go on in the next. A step that was broken off is left at
    # once, as it was before it began, and its batch comes again; what the body of the loop does
    # after the step is then undone with it. After a step that is done the view is left when the
    # body of the loop has ended.

    @property
    def _broken_off(self) -> bool:
        return self._survives and (self._left or self._broken or self._core.view_over)

    def _note_loss(self, error: _core.PeerError) -> None:
        if not self._survives or self._left:
            raise error
        self._core.note_trouble(str(error))
        self._broken = True

    def _remember(self) -> None:
        """What the body of the loop may change before its step is done."""
        groups = None if self.optimizer is None else self._state.groups()
        self._before = (self._keeping.copies(), groups, self._rate_before)

    def _leave_step(self, error: _core.PeerError) -> None:
        self._note_loss(error)
        copies, groups, self._rate = self._before
        self._keeping.put_back(copies)
        if groups is not None:
            self._state.put_back_groups(groups)
        self._leave()

    def _leave(self) -> None:
        self._in_step = self._stepped = False
        self._core.leave()
        self._left = True

    def _enter(self) -> None:
        self._given = []
        next_to_do = self._core.enter()
        if next_to_do == "left":
            raise SystemExit(self._core.stopped_exit)
        if next_to_do:  # a replay of a run in which this process was lost
            sys.stdout.flush()
            sys.stderr.flush()
            environment = {**os.environ, _core.replay_after: next_to_do}
            os.execve(sys.executable, sys.orig_argv, environment)
        self._left = self._broken = False
        self._in_step = self._stepped = self._armed = self._step_done = self._counted = False
        self._part = 0
        self._loss = None

    def _next_view(self) -> None:
        if not self._left:
            self._leave()
        self._enter()
        self._elsewhere = self._elsewhere or self._core.epoch != self._epoch
        if not self._elsewhere:
            self._given = []

    def _go_on(self) -> None:
        """In the next view, until this rank stands where the loop has something to do."""
        while self._broken_off and not self._elsewhere:
            self._next_view()
            if not self._elsewhere:
                self._core.begin_turn()
                self._reach_end()

    def _go_on_evaluated(self) -> None:
        self._go_on()
        if self._score is not None and self.epoch_is_done:
            self.evaluate(self._score)

    def _reach_end(self) -> None:
        """Where only the end of the epoch is left to do: as after its last step."""
        core = self._core
        if core.batch == 0 or core.batch < core.steps_per_epoch or core.finished:
            return
        try:
            core.go_on_at_end()
            self._stepped = True
            self._agree_at_end()
        except _core.PeerError as error:
            self._note_loss(error)

    def _take_given(self) -> None:
        """What the body of the loop has done since was for the epoch that others had ended."""
        given, self._given = self._given, []
        for load, kept in given:
            load(kept)

    def _steps_of(self, seat: int, seats: int) -> int:
        self.world._dealt = (seat, seats)
        return self._steps if isinstance(self._steps, int) else len(self._steps)

    def _count(self, batch: Any) -> None:
        if self._counted:
            return
        self._counted = True
        first = first_tensor(batch)
        if first is not None and first.dim() > 0:
            examples = first.shape[0] * self._core.accumulate * self.world.size
            self._core.count_samples(float(examples))

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

    def evaluate(self, score: Callable[[], Any]) -> Any:
        """Calls `score` with the model in evaluation mode and without gradients, after the buffers
        of all ranks have become their mean, and returns what it returns.

        A number is taken for an accuracy, a dict for what it names ("loss", "accuracy"). After the
        last step of an epoch the mean over the ranks is recorded as the epoch's result. Ranks count
        alike, unless the dict also has "examples", the number that the others are means over: then
        they count by it, and a rank without any does not.
        """
        core = self._core
        answer: list[Any] = []

        def call() -> tuple[float, float]:
            with self._evaluating():
                answer.append(score())
            return mean_over_ranks(self._core, self.world.size, answer[-1])

        if self._broken_off:
            self._go_on()
        together = not self._survives or self.summary is None
        while self.epoch_is_done and not self._elsewhere and together:
            self._score = score
            try:
                core.evaluate(call)
                return answer[-1]
            except _core.PeerError as error:
                self._note_loss(error)
            self._go_on()
        if self._survives:  # not all are at the same step
            with self._evaluating():
                return score()
        self.average_buffers()
        call()
        return answer[-1]

    @contextlib.contextmanager
    def _evaluating(self) -> Iterator[None]:
        training = self.model.training
        self.model.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            self.model.train(training)

    def average_buffers(self) -> None:
        """Buffers, such as BatchNorm's statistics, become their mean over the ranks, between two
        steps; after the last step of an epoch they are. All ranks call it; evaluate() does."""
        if not self.epoch_is_done:
            self._core.average_buffers()

    # What stays of it.

    def save(self, path: str | os.PathLike) -> None:
        """Writes the model's parameters and buffers to a safetensors file; rank 0 does."""
        if self.world.rank == 0:
            tensors = {name: value.detach() for name, value in self.model.state_dict().items()}
            _core.write_tensors(os.fspath(path), tensors)

    def checkpoint(self) -> None:
        """Writes a checkpoint now, between two steps. All ranks call it."""
        if self._in_step:
            raise _core.ConfigError("checkpoint() is called between two steps")
        if self._broken_off:
            return
        try:
            self._core.checkpoint()
        except _core.PeerError as error:  # one that a lost node has part in is none
            self._note_loss(error)

    def state_dict(self) -> dict[str, Any]:
        """All that this rank needs to go on from here, between two steps: parameters, optimizer,
        an exchange in flight, random numbers, the place in the run. All ranks call it."""
        tensors, place = self._core.state()
        return {"tensors": tensors, "place": place}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The way back, on as many ranks and nodes. All ranks call it, before or between epochs."""
        self._core.load_state(state["tensors"], state["place"])
        self._stepped = False

    def start_at(self, step: int) -> None:
        """Goes on from this step, with model and optimizer as they are: for those that a checkpoint
        of another package has brought back. All ranks call it, before the first epoch."""
        epoch, batch = divmod(step, self._core.steps_per_epoch)
        self.load_state_dict({**self.state_dict(), "place": [epoch, batch, step]})

    @property
    def metrics(self) -> dict[str, Any]:
        """What is known after the last step, on rank 0: the figures of metrics.jsonl, but
        recent_loss, which is the mean since the line before. Those of an epoch's last step come
        with the end of the epoch."""
        found = json.loads(self._core.metrics)
        found.pop("recent_loss", None)
        return found

    @property
    def settings(self) -> dict[str, str]:
        """Every flag that counts, with its value, as config.toml has them."""
        return dict(self._core.settings)

    @property
    def out(self) -> str:
        """The folder of the run."""
        return self._core.out

    @property
    def finished(self) -> bool:
        return self._core.finished

    # What the core asks for. Called in the middle of its own functions.

    def _note_step(self) -> None:
        self._step_done = True

    def _moments(self) -> list[torch.Tensor]:
        return self._state.lay_out(self._core.spans, self._core.flat_parameters)

    def _optimizer_state(self) -> dict[str, torch.Tensor]:
        return self._state.tensors()

    def _load_optimizer_state(self, kept: dict[str, torch.Tensor]) -> None:
        self._load(self._state.load, kept)

    def _set_optimizer_steps(self, steps: int) -> None:
        self._state.set_steps(steps)

    def _state_of_loop(self) -> dict[str, torch.Tensor]:
        return self._keeping.tensors()

    def _load_state_of_loop(self, kept: dict[str, torch.Tensor]) -> None:
        self._load(self._keeping.load, kept)

    def _load(self, load: Callable, kept: dict[str, torch.Tensor]) -> None:
        load(kept)
        if self._survives:
            self._given.append((load, kept))


def resume(
    out: str | os.PathLike,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer | str | None = None,
    **options: Any,
) -> Run:
    """Goes on with the run in a folder, from its newest checkpoint, with the flags that it was
    begun with; `options` are those of Run, and stand in their place. The same as the program's
    `--resume`."""
    with open(os.path.join(out, "config.toml"), "rb") as file:
        kept = {key.replace("-", "_"): value for key, value in tomllib.load(file).items()}
    own = isinstance(optimizer, torch.optim.Optimizer)
    for key in ("model", "data", "nodes", "ranks_per_node", "device", "threads"):
        kept.pop(key, None)
    if own:
        kept = {key: value for key, value in kept.items() if key not in OPTIMIZER_FLAGS}
    name = kept.pop("optimizer", None)
    options = {**kept, **options, "out": os.fspath(out), "resume": True}
    return Run(model, optimizer if own else optimizer or name, **options)


OPTIMIZER_FLAGS = frozenset(
    "optimizer momentum nesterov trust weight_decay no_decay_norm_bias no_decay lr lr_schedule "
    "lr_warmup_epochs lr_start lr_end".split()
)


def weakly(method: Callable[[], None]) -> Callable[..., None]:
    """A hook that does not keep the method's object."""
    reference = weakref.WeakMethod(method)

    def hook(*_: Any) -> None:
        found = reference()
        if found is not None:
            found()

    return hook


def moved(batch: Any, device: torch.device) -> Any:
    if device.type == "cpu":
        return batch
    if isinstance(batch, torch.Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, dict):
        return type(batch)({key: moved(value, device) for key, value in batch.items()})
    if isinstance(batch, (list, tuple)) and not hasattr(batch, "_fields"):
        return type(batch)(moved(value, device) for value in batch)
    return batch


def first_tensor(batch: Any) -> torch.Tensor | None:
    if isinstance(batch, torch.Tensor):
        return batch
    values = batch.values() if isinstance(batch, dict) else batch
    if isinstance(values, (list, tuple)) or isinstance(batch, dict):
        for value in values:
            found = first_tensor(value)
            if found is not None:
                return found
    return None


def mean_over_ranks(core: _core.LoopRun, ranks: int, answer: Any) -> tuple[float, float]:
    """Loss and accuracy, of the ranks that have one; NaN where none has."""
    found = answer if isinstance(answer, dict) else {"accuracy": answer}
    weighed = "examples" in found
    weight = float(found["examples"]) if weighed else 1.0
    if not 0 <= weight < float("inf"):
        raise _core.ConfigError(f"a score has a number of examples of at least 0, got {weight}")
    own = [float(weighed)]
    for key in ("loss", "accuracy"):
        value = found.get(key)
        counts = value is not None and weight > 0
        own += [float(value) * weight, weight] if counts else [0.0, 0.0]
    told, *sums = core.reduce(torch.tensor(own, dtype=torch.float64), "sum").tolist()
    if told not in (0, ranks):
        raise _core.ConfigError('some ranks give "examples" with their score, and some do not')
    loss, accuracy = (
        total / weights if weights > 0 else _NEVER
        for total, weights in zip(sums[::2], sums[1::2], strict=True)
    )
    return loss, accuracy
