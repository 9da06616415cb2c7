# SPDX-License-Identifier: Apache-2.0
"""What the ranks of closure_test.py's jobs do: closure_job.py NAME OUT [FLAG=VALUE...]"""

import json
import os
import sys

import torch
import torch.nn.functional as F
from torch import nn

import daso
import daso.driven

EXAMPLES, STEPS = 48, 6  # of an epoch


def data(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The examples of a step, which the ranks share out. They come in an order that makes the ranks'
    losses, and so the line searches that would follow them, as different as can be."""
    draw = torch.Generator().manual_seed(step)
    x = torch.randn(EXAMPLES, 5, generator=draw)
    y = torch.tanh(x @ torch.randn(5, 2, generator=torch.Generator().manual_seed(99)))
    order = y.square().sum(1).argsort()
    return x[order], y[order]


def net() -> nn.Module:
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 2))


def lbfgs(model: nn.Module, **options) -> torch.optim.LBFGS:
    usual = {"max_iter": 4, "history_size": 5, "line_search_fn": "strong_wolfe"}
    return torch.optim.LBFGS(model.parameters(), **{**usual, **options})


def flat(model: nn.Module) -> torch.Tensor:
    return torch.cat([one.detach().flatten() for one in model.parameters()])


def in_pytorch(steps: int, evaluations: list[int] | None = None, **options) -> torch.Tensor:
    """The parameters that PyTorch alone ends with, on all examples."""
    model = net()
    optimizer = lbfgs(model, **options)
    for step in range(steps):
        x, y = data(step)

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            return loss

        optimizer.step(closure)
        if evaluations is not None:
            evaluations.append(optimizer.state[next(model.parameters())]["func_evals"])
    return flat(model)


def train(
    out: str,
    way: str = "forward",
    epochs: int = 2,
    calls: list[int] | None = None,
    options: dict | None = None,
    **flags,
) -> daso.Run:
    world = daso.init()
    model = net()
    optimizer = lbfgs(model, **(options or {}))
    run = daso.Run(
        model, optimizer, steps_per_epoch=STEPS, epochs=epochs, out=out, progress=False, **flags
    )
    for _ in run.epochs():
        for _ in run.batches(range(STEPS)):
            x, y = (one.chunk(world.size)[world.rank] for one in data(run._core.step))
            asked = 0

            def forward() -> torch.Tensor:
                nonlocal asked
                asked += 1
                return F.mse_loss(model(x), y)

            def backward() -> torch.Tensor:
                optimizer.zero_grad()
                loss = forward()
                loss.backward()
                return loss

            begun = run.step(backward if way == "backward" else forward)
            assert begun.item() > 0
            if calls is not None:
                calls.append(asked)
    return run


def alone(out: str) -> None:
    """A world of one has the bits of PyTorch."""
    # The long step comes to numbers that are not finite, and is then halved until they are.
    for options in ({}, {"line_search_fn": None, "lr": 0.1}, {"lr": 1e25}):
        expected = in_pytorch(2 * STEPS, **options)
        assert expected.isfinite().all()
        for strategy in ("none", "node", "sync", "local", "daso"):
            for way in ("forward", "backward"):
                name = f"{out}/{strategy}/{way}/{len(options)}{options.get('lr')}"
                run = train(name, way, strategy=strategy, options=options)
                assert torch.equal(flat(run.model), expected), (options, strategy, way)
    print("same")


def together(out: str, tolerance: str = "", **flags) -> None:
    """Where all ranks are tied together their parts of the examples are one batch."""
    calls: list[int] = []
    run = train(out, calls=calls, **flags)
    expected_calls: list[int] = []
    expected = in_pytorch(2 * STEPS, expected_calls)
    off = (flat(run.model) - expected).abs().max().item()
    assert off < float(tolerance), off
    assert sum(calls) == expected_calls[-1], (calls, expected_calls)
    texts = daso.init().gather(str(flat(run.model).tolist()))
    print("same" if len(set(texts)) == 1 else "different")


def learns(out: str) -> None:
    """Ranks that average together evaluate as often, and are equal; so are all in the end, unless
    nodes never meet."""
    world = daso.init()
    meeting = {"schedule": "fixed", "skip": 3, "warmup_epochs": 1, "cooldown_epochs": 1}
    for strategy, flags in {"node": {}, "local": meeting, "daso": {"wait": 2, **meeting}}.items():
        calls: list[int] = []
        run = train(f"{out}/{strategy}", calls=calls, epochs=6, strategy=strategy, **flags)
        end = str(flat(run.model).tolist())
        found = world.gather(json.dumps([world.node, str(calls), end]))
        of_node = {text for text in found if json.loads(text)[0] == world.node}
        assert len(of_node) == 1, of_node
        ends = {json.loads(text)[2] for text in found}
        assert len(ends) == (world.nodes if strategy == "node" else 1), ends
        x, y = data(STEPS)
        loss = F.mse_loss(run.model(x), y).item()
        assert loss < 0.05, loss  # 0.5 where it begins
        if world.rank == 0:
            print(f"{strategy}: loss {loss}, {sum(calls)} calls, {run.summary['exchanges']} exchanges")


def ends_with(out: str, **flags) -> None:
    run = train(out, epochs=4, checkpoint_every="4steps", keep=9, **flags)
    run.save(os.path.join(out, "model.safetensors"))


def drift(out: str, rank1: str, **flags) -> None:
    """The optimizer of rank 1 is another."""
    key, value = rank1.split(":")
    options = {key: float(value) if "." in value else int(value)} if daso.init().rank == 1 else {}
    train(out, options=options, **flags)


def plain_closure(out: str, **flags) -> None:
    """Of optimizers that need none, ours as well, the function is the loss."""
    for name, make in {
        "sgd": lambda _: "sgd",
        "SGD": lambda model: torch.optim.SGD(model.parameters(), 0.1, momentum=0.9),
    }.items():
        ends = []
        for way in ("loss", "function"):
            model = net()
            more = {"lr": 0.1} if name == "sgd" else {}
            run = daso.Run(
                model, make(model), epochs=2, steps_per_epoch=STEPS, out=f"{out}/{name}/{way}",
                progress=False, **more, **flags,
            )
            for _ in run.epochs():
                for _ in run.batches(range(STEPS)):
                    world = daso.init()
                    x, y = (one.chunk(world.size)[world.rank] for one in data(run._core.step))
                    loss = lambda: F.mse_loss(model(x), y)  # noqa: E731
                    run.step(loss if way == "function" else loss())
            ends.append(flat(model))
        assert torch.equal(*ends), name
    print("same")


class Deaf(torch.optim.SGD):
    def step(self, closure):
        return super().step()


def refusals(out: str) -> None:
    model = nn.Linear(2, 1)
    x = torch.ones(3, 2)

    def run(optimizer=lbfgs, **flags) -> daso.Run:
        nonlocal model
        model = nn.Linear(2, 1)
        return daso.Run(model, optimizer(model), steps_per_epoch=2, out=f"{out}/{name}", **flags)

    cases = {
        "scaler": lambda: run(scaler=torch.amp.GradScaler("cpu")),
        "accumulate": lambda: run(accumulate=2),
        "loss": lambda: run().step(model(x).sum()),
        "calls": lambda: run().average(model(x).sum()),
        "nothing": lambda: run().step(lambda: None),
        "numbers": lambda: run().step(lambda: model(x)),
        "deaf": lambda: run(lambda model: Deaf(model.parameters())).step(lambda: model(x).sum()),
        "driven": lambda: daso.driven.Driven(run()),
    }
    for name, act in cases.items():
        try:
            act()
        except daso.ConfigError as error:
            print(f"{name}: {error}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    words = dict(word.split("=", 1) for word in sys.argv[3:])
    globals()[sys.argv[1]](sys.argv[2], **words)
