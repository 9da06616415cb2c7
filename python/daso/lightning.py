# SPDX-License-Identifier: Apache-2.0
"""A strategy for the Trainer of PyTorch Lightning.

    from lightning.pytorch import Trainer
    from daso.lightning import DasoStrategy

    Trainer(strategy=DasoStrategy(strategy="daso", skip=4), max_epochs=10).fit(model, loader)

The program is started by `daso run`, torchrun, mpirun or srun; alone it is a world of one.
"""

from __future__ import annotations

import base64
import math
import pickle
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import DistributedSampler, RandomSampler

try:
    from lightning.fabric.utilities.data import _update_dataloader
    from lightning.pytorch.strategies import ParallelStrategy
    from lightning.pytorch.trainer.states import TrainerFn
    from lightning.pytorch.utilities import rank_zero_only
except ImportError as error:
    raise ImportError("daso.lightning needs PyTorch Lightning: pip install lightning") from error

from daso import _core
from daso.driven import Driven, checked
from daso.run import Run
from daso.sampler import Sampler
from daso.world import World, init


class DasoStrategy(ParallelStrategy):
    """Trains a LightningModule with all ranks of the world.

    The flags are those of daso.Run: strategy="sync", skip=8, out="runs/mine", ... Epochs, steps of
    an epoch and accumulation are the Trainer's. There is one optimizer, and float32 parameters:
    precision is 32-true, bf16-mixed or 16-mixed.

    A training loader gets a daso.Sampler, and for evaluations each rank gets its part of the
    examples, unless Trainer(use_distributed_sampler=False) says no.

    What a validation after an epoch logs as val_loss and val_acc or val_accuracy becomes the
    epoch's result in the run's folder, as the mean over the ranks. self.log(..., sync_dist=True)
    reduces over the ranks, too. Lightning's checkpoints are written by rank 0. Between the ends of
    two epochs ranks may differ, and such a checkpoint holds rank 0's model.
    """

    strategy_name = "daso"

    def __init__(self, *, world: World | None = None, **flags: Any):
        self.world = world or init()
        super().__init__(parallel_devices=[self.world.device])
        self.run: Run | None = None  # while a Trainer fits, and after
        self._flags = checked(flags, "Lightning", "trainer.fit(..., ckpt_path=PATH)")
        self._driven: Driven | None = None
        self._trainer: Any = None
        self._in_step = False  # of the optimizer, with this batch
        rank_zero_only.rank = self.world.rank

    # Who and where.

    is_distributed = property(lambda self: self.world.size > 1)
    is_global_zero = property(lambda self: self.world.rank == 0)
    root_device = property(lambda self: self.world.device)
    global_rank = property(lambda self: self.world.rank)
    local_rank = property(lambda self: self.world.local_rank)
    node_rank = property(lambda self: self.world.node)
    world_size = property(lambda self: self.world.size)
    num_processes = property(lambda self: self.world.size)

    def setup(self, trainer: Any) -> None:
        self._trainer = trainer
        if self.precision_plugin.precision not in ("32-true", "bf16-mixed", "16-mixed"):
            raise _core.ConfigError(
                f"precision {self.precision_plugin.precision} is not supported: parameters are "
                "float32; take 32-true, bf16-mixed or 16-mixed"
            )
        super().setup(trainer)
        if trainer.state.fn != TrainerFn.FITTING:
            return
        if len(self.optimizers) != 1:
            raise _core.ConfigError(f"a run has one optimizer, the module has {len(self.optimizers)}")
        trainer.fit_loop.setup_data()
        batches = trainer.num_training_batches
        if math.isinf(batches):
            raise _core.ConfigError(
                "the loader does not tell its length: name the batches of an epoch by "
                "Trainer(limit_train_batches=N)"
            )
        parts = trainer.accumulate_grad_batches
        steps = math.ceil(batches / parts)
        if trainer.max_epochs in (None, -1) and trainer.max_steps < 0:
            raise _core.ConfigError("the end of a run is known: give max_epochs or max_steps")
        epochs = trainer.max_epochs
        if epochs in (None, -1):
            epochs = math.ceil(trainer.max_steps / steps)
        self.run = Run(
            self.lightning_module,
            self.optimizers[0],
            steps_per_epoch=steps,
            epochs=epochs,
            max_steps=trainer.max_steps if trainer.max_steps > 0 else None,
            accumulate=parts,
            scaler=getattr(self.precision_plugin, "scaler", None),
            world=self.world,
            **self._flags,
        )
        self._driven = Driven(self.run)

    def model_to_device(self) -> None:
        self.model.to(self.root_device)

    def process_dataloader(self, dataloader: Any) -> Any:
        """Of a training loader. Those of evaluations have Lightning's samplers already."""
        trainer = self._trainer
        if not trainer.training or not trainer._accelerator_connector.use_distributed_sampler:
            return dataloader
        sampler = getattr(dataloader, "sampler", None)
        shuffles = isinstance(sampler, DistributedSampler) and sampler.shuffle
        if not shuffles and not isinstance(sampler, RandomSampler):
            return dataloader
        size = dataloader.batch_size
        return _update_dataloader(dataloader, Sampler(dataloader.dataset, batch_size=size))

    @property
    def distributed_sampler_kwargs(self) -> dict[str, Any]:
        return {"num_replicas": self.world.size, "rank": self.world.rank}

    # The loop.

    def on_train_start(self) -> None:
        if self._trainer.global_step > 0:  # a checkpoint of Lightning's
            self.run.start_at(self._trainer.global_step)

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        self._driven.begin_batch(batch)

    def pre_backward(self, closure_loss: torch.Tensor) -> None:
        self._driven.add_loss(closure_loss)
        if self._in_step:
            self.run.begin_backward()

    def optimizer_step(
        self,
        optimizer: torch.optim.Optimizer,
        closure: Callable[[], Any],
        model: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Lightning's closure computes the gradients; they are averaged before they are clipped."""

        def averaged() -> Any:
            self._in_step = True
            try:
                answer = closure()
            finally:
                self._in_step = False
            self._driven.average()
            return answer

        answer = super().optimizer_step(optimizer, averaged, model, **kwargs)
        self.run.exchange()
        if self.run.stopping:
            self._trainer.should_stop = True
        return answer

    def on_validation_start(self) -> None:
        if self._fits():
            self.run.average_buffers()

    def on_validation_end(self) -> None:
        if self._fits():
            self._driven.record(self._trainer.callback_metrics, "val_")

    def _fits(self) -> bool:
        return self._trainer.state.fn == TrainerFn.FITTING and not self._trainer.sanity_checking

    def on_train_end(self) -> None:
        self._driven.finish()

    def on_exception(self, exception: BaseException) -> None:
        if self.run is not None:
            self.run.release_signals()

    # What ranks tell each other.

    def barrier(self, name: str | None = None) -> None:
        self.world.barrier()

    def broadcast(self, obj: Any, src: int = 0) -> Any:
        found = self.world.gather(text_of(obj) if self.world.rank == src else "")
        return obj if self.world.rank == src else value_of(found[src])

    def reduce(self, tensor: Any, group: Any = None, reduce_op: Any = "mean") -> Any:
        if not isinstance(tensor, torch.Tensor):
            return tensor
        how = str(reduce_op or "mean").lower().rsplit(".", 1)[-1]  # of RedOpType.SUM, too
        how = "mean" if how == "avg" else how
        if how == "mean" and not tensor.is_floating_point():
            tensor = tensor.float()
        own = tensor.to(torch.int8) if tensor.dtype == torch.bool else tensor
        return self.world.all_reduce(own.detach().contiguous(), how)

    def all_gather(self, tensor: torch.Tensor, group: Any = None, sync_grads: bool = False) -> Any:
        """The tensors of all ranks, of one shape, stacked."""
        if sync_grads:
            raise _core.ConfigError("all_gather() gives no gradients: leave out sync_grads")
        texts = self.world.gather(text_of(tensor.detach().cpu()))
        return torch.stack([value_of(text) for text in texts]).to(tensor.device)

    def reduce_boolean_decision(self, decision: bool, all: bool = True) -> bool:
        own = torch.tensor([float(decision)], dtype=torch.float64)
        return bool(self.world.all_reduce(own, "min" if all else "max").item())


def text_of(value: Any) -> str:
    return base64.b64encode(pickle.dumps(value)).decode()


def value_of(text: str) -> Any:
    """What a rank of the same program has sent."""
    return pickle.loads(base64.b64decode(text))
