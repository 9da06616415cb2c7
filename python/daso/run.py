# SPDX-License-Identifier: Apache-2.0
"""A training run whose loop is the user's."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import tomllib
import weakref
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any

import torch

from daso import _core
from daso.batches import Batches, moved
from daso.evaluations import needs_closure
from daso.flags import words_of
from daso.keeping import Keeping
from daso.moments import OptimizerState
from daso.progress import Bar
from daso.steps import Steps
from daso.views import Views
from daso.world import World, init

_NEVER = float("nan")


class Run(Steps, Views):
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

    def _steps_of(self, seat: int, seats: int) -> int:
        self.world._dealt = (seat, seats)
        return self._steps if isinstance(self._steps, int) else len(self._steps)

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
