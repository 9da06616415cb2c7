# SPDX-License-Identifier: Apache-2.0
"""What the ranks of ecosystem_test.py's jobs do: ecosystem_job.py NAME OUT [KEY=VALUE...]

Every job prints what its model has become, in one line of JSON for each rank.
"""

import contextlib
import hashlib
import json
import math
import os
import signal
import sys
import warnings

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import daso

warnings.filterwarnings("ignore")
EXAMPLES = 128


def data() -> TensorDataset:
    draw = torch.Generator().manual_seed(3)
    x = torch.randn(EXAMPLES, 10, generator=draw)
    return TensorDataset(x, (x @ torch.randn(10, 3, generator=draw)).argmax(1))


def net() -> nn.Module:
    torch.manual_seed(7 + daso.init().rank)  # rank 0's values become everybody's
    return nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 3))


def tell(model: nn.Module, **more) -> None:
    values = torch.cat([one.detach().flatten() for one in model.parameters()])
    digest = hashlib.sha256(values.numpy().tobytes()).hexdigest()
    told = {"rank": daso.init().rank, "digest": digest, "values": values[:40].tolist(), **more}
    print(json.dumps(told), flush=True)


def stopper(flags: dict):
    """Sends this process a signal in the step that the flags name."""
    stop_at = int(flags.pop("stop_at", -1))
    return lambda step: os.kill(os.getpid(), signal.SIGTERM) if step == stop_at else None


def by_lightning(
    out: str,
    batch: int,
    parts: int = 1,
    epochs: int = 4,
    go_on: str = "",
    scale: float = 0,
    overflow_at: int = -1,
    **flags,
):
    """With `scale` the loss is scaled as 16-mixed does it, and computed in float32: so nothing is
    rounded otherwise. In step `overflow_at` a gradient of rank 1 is not finite."""
    import lightning.pytorch as pl
    from lightning.pytorch.plugins import MixedPrecision

    from daso.lightning import DasoStrategy

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = net()
            self.net[0].weight.register_hook(self.overflow)

        def overflow(self, gradient):
            overflows = self.global_step == int(overflow_at) and daso.init().rank == 1
            return gradient * math.inf if overflows else gradient

        def training_step(self, batch, _):
            stop_at(self.global_step)
            return F.cross_entropy(self.net(batch[0]), batch[1])

        def validation_step(self, batch, number):
            told["sum"] = self.trainer.strategy.reduce(torch.tensor(2), reduce_op="sum").item()
            self.log("val_loss", F.cross_entropy(self.net(batch[0]), batch[1]), sync_dist=True)
            told["seen"] = told.get("seen", 0) + len(batch[0])

        def on_train_end(self):
            strategy = self.trainer.strategy
            rank = torch.tensor([strategy.world.rank])
            told["gathered"] = strategy.all_gather(rank).flatten().tolist()
            told["word"] = strategy.broadcast({"from": strategy.world.rank}, src=0)["from"]
            told["all"] = strategy.reduce_boolean_decision(strategy.world.rank == 0)

        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), 0.1, momentum=0.9)
            return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)]

    class Scaled(MixedPrecision):
        def autocast_context_manager(self):
            return contextlib.nullcontext()

    told = {}
    stop_at = stopper(flags)
    examples = data()
    scaler = torch.amp.GradScaler("cpu", init_scale=float(scale or 1))
    plugins = [Scaled("16-mixed", "cpu", scaler)] if scale else []
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
    trainer = pl.Trainer(
        strategy=DasoStrategy(out=f"{out}/run", **flags),
        max_epochs=int(epochs),
        accumulate_grad_batches=int(parts),
        gradient_clip_val=0.5,
        num_sanity_val_steps=0,
        default_root_dir=out,
        plugins=plugins,
        **quiet,
    )
    model = Module()
    loader = DataLoader(examples, batch_size=int(batch), shuffle=True)
    trainer.fit(model, loader, DataLoader(examples, batch_size=32), ckpt_path=go_on or None)
    told |= {"epoch": trainer.current_epoch, "scale": scaler.get_scale()}
    tell(model, val_loss=trainer.callback_metrics["val_loss"].item(), **told)


def by_huggingface(out: str, batch: int, parts: int = 1, epochs: int = 4, go_on: str = "", **flags):
    from daso.huggingface import Trainer, TrainingArguments

    class Module(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net()

        def forward(self, x, labels):
            stop_at(trainer.state.global_step)
            scores = self.net(x)
            return {"loss": F.cross_entropy(scores, labels), "logits": scores}

    stop_at = stopper(flags)
    examples = [{"x": x, "labels": y} for x, y in zip(*data().tensors, strict=True)]
    args = TrainingArguments(
        output_dir=f"{out}/transformers",
        num_train_epochs=int(epochs),
        per_device_train_batch_size=int(batch),
        per_device_eval_batch_size=1,  # transformers counts a last batch that is smaller as a whole one
        gradient_accumulation_steps=int(parts),
        max_grad_norm=0.5,
        learning_rate=0.1,
        lr_scheduler_type="constant",
        optim="sgd",
        eval_strategy="epoch",
        save_strategy="epoch",
        load_best_model_at_end=True,
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    model = Module()
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=examples,
        eval_dataset=examples[:-1],  # ranks have different numbers of them
        daso={"out": f"{out}/run", **flags},
    )
    trainer.train(resume_from_checkpoint=go_on or None)
    tell(model, val_loss=trainer.evaluate()["eval_loss"])


if __name__ == "__main__":
    torch.set_num_threads(1)
    globals()[sys.argv[1]](sys.argv[2], **dict(word.split("=", 1) for word in sys.argv[3:]))
