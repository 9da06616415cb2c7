# SPDX-License-Identifier: Apache-2.0
"""The Trainer of Hugging Face's transformers, over the ranks of a world.

    from daso.huggingface import Trainer, TrainingArguments

    args = TrainingArguments(output_dir="out", num_train_epochs=3)
    Trainer(model=model, args=args, train_dataset=data, daso={"strategy": "daso"}).train()

The program is started by `daso run`, torchrun, mpirun or srun; alone it is a world of one.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import torch
from torch.utils.data import DistributedSampler

try:
    import transformers
    from accelerate.state import AcceleratorState, PartialState
    from accelerate.utils import DistributedType
    from transformers.trainer_pt_utils import find_batch_size
except ImportError as error:
    raise ImportError(
        "daso.huggingface needs transformers: pip install transformers accelerate"
    ) from error

from daso import _core
from daso.driven import Driven, checked
from daso.run import Run
from daso.sampler import Sampler
from daso.world import init


@dataclasses.dataclass
class TrainingArguments(transformers.TrainingArguments):
    """Those of transformers, for a rank of the world.

    The launcher's variables would let accelerate join the ranks as well, for DDP. Here it is told
    that its process is alone, and the Trainer does what ranks do together.
    """

    @functools.cached_property
    def _setup_devices(self) -> torch.device:
        device = torch.device("cpu") if self.use_cpu else init().device
        AcceleratorState._reset_state(reset_partial_state=True)
        PartialState._shared_state.update(
            _cpu=device.type == "cpu",
            backend=None,
            debug=False,
            device=device,
            distributed_type=DistributedType.NO,
            fork_launched=False,
            local_process_index=0,
            num_processes=1,
            process_index=0,
        )
        self.distributed_state = PartialState()
        self._n_gpu = int(device.type == "cuda")
        return device

    world_size = property(lambda self: init().size)
    process_index = property(lambda self: init().rank)
    local_process_index = property(lambda self: init().local_rank)


class Trainer(transformers.Trainer):
    """Trains with all ranks of the world.

    `daso` has the flags of daso.Run: {"strategy": "sync", "skip": 8, "out": "runs/mine"}. Epochs,
    steps, accumulation, clipping and learning rates are those of the TrainingArguments, which are
    of this module. Batches are dealt by daso.Sampler. Each rank evaluates its part of the data; the
    metrics are their mean over the ranks, by numbers of examples, and eval_loss and eval_accuracy
    after an epoch become its result in the run's folder. Rank 0 writes the Trainer's checkpoints.
    Between the ends of two epochs ranks may differ, and such a checkpoint holds rank 0's model.
    """

    def __init__(self, *args: Any, daso: dict[str, Any] | None = None, **options: Any):
        super().__init__(*args, **options)
        if not isinstance(self.args, TrainingArguments):
            raise _core.ConfigError(
                "the arguments are those of transformers, for DDP: make them by "
                "daso.huggingface.TrainingArguments"
            )
        if self.args.fp16:
            raise _core.ConfigError("fp16 is not supported here: take bf16, or neither")
        self.daso_run: Run | None = None  # made by train()
        going_on = "trainer.train(resume_from_checkpoint=PATH)"
        self._flags = checked(daso or {}, "transformers", going_on)
        self._driven: Driven | None = None
        self._evaluated = 0  # examples, by this rank
        self.add_callback(_Events(self))

    def train(self, *args: Any, **options: Any) -> Any:
        try:
            return super().train(*args, **options)
        finally:
            if self.daso_run is not None:
                self.daso_run.release_signals()

    def training_step(self, model: torch.nn.Module, inputs: Any, *args: Any, **options: Any) -> Any:
        last = self.accelerator.sync_gradients  # of the batches of this step
        self._driven.begin_batch(inputs)
        if last:
            self.daso_run.begin_backward()
        loss = super().training_step(model, inputs, *args, **options)
        self._driven.add_loss(loss)
        if last:
            self._driven.average()
        return loss

    def _begin(self, optimizer: torch.optim.Optimizer, loader: Any) -> None:
        parts = self.args.gradient_accumulation_steps
        try:
            steps = math.ceil(len(loader) / parts)
        except TypeError:
            raise _core.ConfigError("a run knows its steps: the data set needs a length") from None
        self.daso_run = Run(
            self.model,
            getattr(optimizer, "optimizer", optimizer),  # accelerate's holds it
            steps_per_epoch=steps,
            epochs=math.ceil(self.state.max_steps / steps),
            max_steps=self.state.max_steps,
            accumulate=parts,
            **self._flags,
        )
        self._driven = Driven(self.daso_run)
        if self.state.global_step > 0:  # a checkpoint of the Trainer's
            self.daso_run.start_at(self.state.global_step)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        super().save_model(output_dir, _internal_call)
        if _internal_call:  # of all ranks, which look next whether rank 0 has written it
            init().barrier()

    # Data, and what is measured on it.

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        data = self.train_dataset if train_dataset is None else train_dataset
        seed = self.args.seed if self.args.data_seed is None else self.args.data_seed
        return Sampler(data, batch_size=self._train_batch_size, seed=seed)

    def _get_eval_sampler(self, eval_dataset: Any) -> Any:
        """This rank's part. Each example belongs to one rank, if there are as many as ranks."""
        world = init()
        if len(eval_dataset) < world.size:
            return DistributedSampler(eval_dataset, world.size, world.rank, shuffle=False)
        return range(world.rank, len(eval_dataset), world.size)

    def prediction_step(self, model: torch.nn.Module, inputs: Any, *args: Any, **options: Any) -> Any:
        self._evaluated += find_batch_size(inputs) or 1
        return super().prediction_step(model, inputs, *args, **options)

    def evaluation_loop(self, *args: Any, **options: Any) -> Any:
        if self.is_in_train:
            self.daso_run.average_buffers()
        self._evaluated = 0
        output = super().evaluation_loop(*args, **options)
        names = sorted(key for key, one in output.metrics.items() if isinstance(one, (int, float)))
        own = [float(output.metrics[name]) * self._evaluated for name in names]
        told = torch.tensor([*own, self._evaluated], dtype=torch.float64)
        *sums, examples = init().all_reduce(told, "sum").tolist()
        output.metrics.update((name, one / examples) for name, one in zip(names, sums, strict=True))
        return output


class _Events(transformers.TrainerCallback):
    """What the Trainer tells, and has no method for."""

    def __init__(self, trainer: Trainer):
        self._trainer = trainer

    def on_train_begin(self, args, state, control, **kwargs):
        self._trainer._begin(kwargs["optimizer"], kwargs["train_dataloader"])

    def on_optimizer_step(self, args, state, control, **kwargs):
        run = self._trainer.daso_run
        run.exchange()
        if run.stopping:
            control.should_training_stop = True

    def on_evaluate(self, args, state, control, metrics, **kwargs):
        if self._trainer.is_in_train:
            self._trainer._driven.record(metrics, "eval_")

    def on_train_end(self, args, state, control, **kwargs):
        self._trainer._driven.finish()
