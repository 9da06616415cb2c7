# SPDX-License-Identifier: Apache-2.0
"""What the ranks of survival_test.py's jobs do: surviving_job.py NAME OUT [FLAG=VALUE...]"""

import os
import pathlib
import signal
import sys
import time

import torch
import torch.nn.functional as F
from job import accuracy, data, flags_of, net
from torch.utils.data import DataLoader

import daso

BATCH = 8


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def once(out: str, what: str) -> bool:
    """In whichever life of whichever process comes first."""
    pathlib.Path(out).mkdir(parents=True, exist_ok=True)
    try:
        pathlib.Path(out, f"once-{what}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


class Faults:
    """Kills ranks at places that the test names: "RANK@STEP,...", each once in a run."""

    def __init__(self, out: str, plan: str):
        self._out = out
        self._own = {}
        for one in filter(None, plan.split(",")):
            rank, step = one.split("@")
            if rank == os.environ["RANK"] and "DASO_REPLAY" not in os.environ:
                self._own[int(step)] = one

    def at(self, step: int) -> None:
        if step in self._own and once(self._out, f"died-{self._own[step]}"):
            die()


def slow_while_missing(world: daso.World, nodes: int) -> None:
    """What a step takes: longer while a node is missing, so that it is back before the end."""
    if world.nodes < nodes:
        time.sleep(0.2)


def train(
    out: str,
    kill: str = "",
    way: str = "step",
    kind: str = "adamw",
    loader: str = "deal",
    nodes: str = "3",
    epochs: str = "6",
    pause: str = "0",
    **flags,
) -> None:
    """Trains with what only Python has: dropout, batch normalisation, a scheduler of each step and
    one of each epoch, and accumulated gradients where the flags say so."""
    world = daso.init()
    faults = Faults(out, kill)
    examples = data(768)
    model = net(dropout=0.1)
    scaler = None
    if kind == "lbfgs":
        optimizer = torch.optim.LBFGS(model.parameters(), lr=0.05, max_iter=3)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
        if kind == "scaled":
            scaler = torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=7)
    slower = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.999)
    decay = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    sampler = daso.Sampler(examples, batch_size=BATCH) if loader == "deal" else None
    batches = DataLoader(
        examples,
        batch_size=BATCH,
        sampler=sampler,
        shuffle=sampler is None,
        num_workers=2 if loader == "workers" else 0,
        drop_last=True,
    )
    run = daso.Run(
        model,
        optimizer,
        epochs=int(epochs),
        steps_per_epoch=batches if loader == "deal" else 32,
        scaler=scaler,
        also={"slower": slower, "decay": decay},
        out=out,
        progress=False,
        **flags,
    )
    print(f"entered at batch {run._core.batch} of epoch {run._core.epoch}", flush=True)
    seen = open(pathlib.Path(run.out, f"seen-{os.environ['RANK']}-{os.getpid()}"), "a")
    for epoch in run.epochs():
        for x, y in run.batches(batches):
            faults.at(run._core.step)
            slow_while_missing(world, int(nodes))
            time.sleep(float(pause))  # of a step that takes longer
            rows = [int(torch.where((examples.tensors[0] == one).all(1))[0][0]) for one in x]
            print(epoch, run._core.batch, *rows, file=seen, flush=True)
            if way == "closure" or kind == "lbfgs":
                run.step(lambda: F.cross_entropy(model(x), y))
            else:
                loss = F.cross_entropy(model(x), y)
                if way == "step":
                    run.step(loss)
                else:
                    run.backward(loss)
                    run.average()
                    run.update() if scaler else optimizer.step()
                    run.exchange()
            slower.step()
        run.evaluate(lambda: accuracy(model, examples))
        decay.step()
    steps = (slower.last_epoch, decay.last_epoch)
    text = f"{run._core.flat_parameters.double().sum().item()!r} {steps}"
    ends = set(world.gather(text))
    run.save(os.path.join(run.out, "model.safetensors"))
    if world.rank == 0:
        print("equal" if len(ends) == 1 else f"different {ends}", flush=True)


def transfer(out: str, whom: str, **flags) -> None:
    """The joiner, or the donor, is killed while it takes or gives the state, once."""
    taken, given = daso.Run._load_state_of_loop, daso.Run._state_of_loop
    joins = "DASO_JOINS" in os.environ

    def take(self, kept):
        if whom == "joiner" and joins and once(out, "transfer"):
            die()
        return taken(self, kept)

    def give(self):
        # Of nodes that have left one view: the first gives to who joins in the next.
        if whom == "donor" and self.world.nodes == 3 and world_was_smaller[0]:
            if self.world.rank == 0 and not joins and once(out, "transfer"):
                die()
        world_was_smaller[0] = self.world.nodes < 3
        return given(self)

    world_was_smaller = [False]
    daso.Run._load_state_of_loop, daso.Run._state_of_loop = take, give
    train(out, **flags)


def collectives(out: str, **flags) -> None:
    """What ranks do together outside of the run fails when a node is lost, and works in the next
    view."""
    world = daso.init()
    model = torch.nn.Linear(2, 1)
    steps = 40
    run = daso.Run(
        model, "sgd", lr=0.1, epochs=3, steps_per_epoch=steps, out=out, progress=False, **flags
    )
    lost = 0
    rejoined = "DASO_JOINS" in os.environ
    for epoch in run.epochs():
        for step in run.batches(range(steps)):
            slow_while_missing(world, 3)
            run.step(model(torch.ones(1, 2)).sum())
            if rejoined or epoch > 0 or step > 20:
                continue
            if os.environ["RANK"] == "1" and step == 5:
                die()
            try:
                while step == 5 and not lost:
                    world.barrier()
            except daso.PeerError:
                lost += 1
    assert rejoined or lost == 1, lost
    assert len(world.gather("here")) == world.size == 3
    total = world.all_reduce(torch.ones(1)).item()
    print(f"together {total}", flush=True)


def fails(out: str, **flags) -> None:
    """An error that would come again."""
    model = torch.nn.Linear(2, 1)
    run = daso.Run(model, "sgd", lr=0.1, epochs=99, steps_per_epoch=40, out=out, progress=False)
    for _ in run.epochs():
        for step in run.batches(range(40)):
            if step == 5 and os.environ["RANK"] == "1":
                raise ValueError("out of cheese")
            run.step(model(torch.ones(1, 2)).sum())


def plain(out: str, **flags) -> None:
    """Knows nothing of views."""
    if os.environ["RANK"] == "1" and once(out, "plain"):
        die()
    if flags.get("waits"):
        time.sleep(60)


if __name__ == "__main__":
    torch.set_num_threads(1)
    globals()[sys.argv[1]](sys.argv[2], **flags_of(sys.argv[3:]))
