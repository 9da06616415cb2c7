# SPDX-License-Identifier: Apache-2.0
"""What the ranks of run_test.py's jobs do: job.py NAME OUT [FLAG=VALUE...]"""

import json
import os
import signal
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import daso


def data(examples: int = 512) -> TensorDataset:
    draw = torch.Generator().manual_seed(3)
    x = torch.randn(examples, 10, generator=draw)
    y = (x @ torch.randn(10, 3, generator=draw)).argmax(1)
    return TensorDataset(x, y)


def net(dropout: float = 0.0) -> nn.Module:
    torch.manual_seed(7)
    layers = [nn.Linear(10, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*layers, nn.Linear(32, 3))


def accuracy(model: nn.Module, examples: TensorDataset) -> float:
    x, y = examples.tensors
    return (model(x).argmax(1) == y).float().mean().item()


def flags_of(words: list[str]) -> dict:
    flags = dict(word.split("=", 1) for word in words)
    return {key: True if value == "True" else value for key, value in flags.items()}


def plain(
    out: str,
    resume: bool = False,
    stop_at: str = "",
    kill_at: str = "",
    shuffle: bool = False,
    **flags,
) -> None:
    """Trains with AdamW and dropout, and saves the model: what killed and resumed runs must end
    with."""
    examples = data()
    model = net(dropout=0.1)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    sampler = None if shuffle else daso.Sampler(examples, batch_size=16)
    loader = DataLoader(examples, batch_size=16, sampler=sampler, shuffle=shuffle)
    common = {"also": {"decay": decay}, "checkpoint_every": "3steps", **flags}
    if resume:
        run = daso.resume(out, model, optimizer, steps_per_epoch=len(loader), **common)
    else:
        run = daso.Run(
            model, optimizer, epochs=4, steps_per_epoch=len(loader), out=out, **common
        )
    for _ in run.epochs():
        for x, y in run.batches(loader):
            run.step(F.cross_entropy(model(x), y))
            if stop_at and run._core.step == int(stop_at):
                os.kill(os.getpid(), signal.SIGTERM)
            if kill_at and run._core.step == int(kill_at):
                os.kill(os.getpid(), signal.SIGKILL)
        run.evaluate(lambda: accuracy(model, examples))
        decay.step()
    run.save(os.path.join(out, "model.safetensors"))


def in_memory(out: str, **flags) -> None:
    """Goes back to the middle of an exchange, and comes to the same end again."""
    examples = data()
    model = net()
    loader = DataLoader(examples, batch_size=16, sampler=daso.Sampler(examples, batch_size=16))
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    run = daso.Run(
        model, optimizer, epochs=3, steps_per_epoch=len(loader), warmup_epochs=0, out=out, **flags
    )
    ends = []
    kept = None
    while len(ends) < 2:
        for _ in run.epochs():
            for x, y in run.batches(loader):
                run.step(F.cross_entropy(model(x), y))
                if kept is None and run._core.step == 17:
                    kept = run.state_dict()
        ends.append([p.detach().clone() for p in model.parameters()])
        if len(ends) == 1:
            run.load_state_dict(kept)
            assert run._core.step == 17
    same = all(torch.equal(a, b) for a, b in zip(*ends, strict=True))
    print("same" if same else "different")


def parts(out: str, **flags) -> None:
    """Two batches of 8 a step are one of 16, whatever the user does to gradients in between."""
    ends = []
    for batch, accumulate in ((16, 1), (8, 2)):
        examples = data(128)
        torch.manual_seed(1)
        model = nn.Linear(10, 3)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        order = daso.Sampler(examples, batch_size=16)
        loader = DataLoader(examples, batch_size=batch, sampler=order)
        run = daso.Run(
            model,
            optimizer,
            epochs=1,
            steps_per_epoch=len(order) // 16,
            accumulate=accumulate,
            out=f"{out}/{accumulate}",
            **flags,
        )
        for _ in run.epochs():
            for i, (x, y) in enumerate(run.batches(loader)):
                if i % accumulate == 0:
                    optimizer.zero_grad()  # which drops the gradients
                run.step(F.cross_entropy(model(x), y))
        ends.append(run._core.flat_parameters.clone())
    print("same" if torch.allclose(*ends, atol=1e-6) else f"different {ends}")


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(12, 8)
        self.middle = nn.Linear(8, 8)
        self.frozen = nn.Linear(8, 8).requires_grad_(False)
        self.head = nn.Linear(8, 12, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        hidden = self.embedding(tokens)
        hidden = torch.utils.checkpoint.checkpoint(self.middle, hidden, use_reentrant=False)
        return self.head(self.frozen(hidden.tanh()))


def kinds(out: str, **flags) -> None:
    """Tied and frozen weights, checkpointed activations, hooks, autocast, GradScaler."""
    torch.manual_seed(daso.init().rank)
    model = Tied()
    frozen = model.frozen.weight.clone()
    seen = []
    model.middle.register_forward_hook(lambda *_: seen.append(1))
    optimizer = torch.optim.Adagrad(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14)
    run = daso.Run(
        model, optimizer, epochs=2, steps_per_epoch=6, scaler=scaler, out=out, clip_norm=1.0, **flags
    )
    losses = []
    for _ in run.epochs():
        for i in run.batches(range(6)):
            tokens = torch.arange(12).roll(i + daso.init().rank)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = F.cross_entropy(model(tokens).float(), tokens)
            run.step(loss)
            losses.append(loss.item())
    assert model.head.weight is model.embedding.weight
    assert seen and losses[-1] < losses[0]
    texts = daso.init().gather(str(model.embedding.weight.detach().double().sum().item()))
    frozen_same = torch.equal(model.frozen.weight, frozen) or daso.init().rank > 0
    print("same" if len(set(texts)) == 1 and frozen_same else f"different {texts}")


def compiled(out: str, **flags) -> None:
    """A compiled model, given so or plain, learns as a plain one does in a loop of PyTorch alone
    that sees the examples of both ranks."""
    world = daso.init()
    x, y = data(64).tensors
    steps = 12

    def net() -> nn.Module:
        torch.manual_seed(7)
        return nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 3))

    plain = net()
    optimizer = torch.optim.SGD(plain.parameters(), 0.2, momentum=0.9)
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(plain(x), y).backward()
        optimizer.step()
    expected = torch.cat([one.detach().flatten() for one in plain.parameters()])

    own_x, own_y = x[world.rank :: world.size], y[world.rank :: world.size]
    for way in ("compiled", "plain", "used before"):
        torch._dynamo.reset()
        model = net()
        fast = torch.compile(model, backend="aot_eager", fullgraph=True)
        if way == "used before":
            fast(own_x).sum().backward()
        run = daso.Run(
            model if way == "plain" else fast,
            torch.optim.SGD(model.parameters(), 0.2, momentum=0.9),
            epochs=1,
            steps_per_epoch=steps,
            out=f"{out}/{way}",
            **flags,
        )
        for _ in run.epochs():
            for _ in run.batches(range(steps)):
                run.step(F.cross_entropy(fast(own_x), own_y))
        found = torch.cat([one.detach().flatten() for one in model.parameters()])
        largest = (found - expected).abs().max().item()
        assert largest < 1e-6, f"{way}: {largest}"
        assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > 0, "it was not compiled"
    print("same")


def weights(out: str, **flags) -> None:
    """Ranks with more examples count for more, where they tell."""
    rank = daso.init().rank
    model = nn.Linear(10, 3)
    run = daso.Run(model, "sgd", epochs=4, steps_per_epoch=1, out=out, **flags)
    loss, nothing = 2.0 + rank, float("nan")
    scores = [
        (torch.tensor(float(rank)), None, 0.5),
        ({"loss": loss, "accuracy": rank}, 2.5, 0.5),
        ({"loss": loss, "accuracy": rank, "examples": 1 + 2 * rank}, 2.75, 0.75),
        ({"accuracy": rank if rank else nothing, "examples": 3 * rank}, None, 1.0),  # 0 of 0
    ]
    for score, test_loss, test_accuracy in scores:
        run.begin_epoch()
        for _ in run.batches(range(1)):
            run.step(model(torch.ones(2, 10)).sum())
        run.evaluate(lambda found=score: found)
        run.end_epoch()
        if rank == 0:
            assert run.metrics.get("test_loss") == test_loss, run.metrics
            assert run.metrics.get("test_accuracy") == test_accuracy, run.metrics
    run.finish()
    try:
        run.evaluate(lambda: {"accuracy": 1, "examples": 1} if rank else 1)
    except daso.ConfigError as error:
        print(f"refused: {error}")


def by_hand(out: str, **flags) -> None:
    """The four calls one by one are step(), and so are gradients that somebody else computed."""
    ends = []
    for way in ("step", "calls", "foreign"):
        examples = data(256)
        model = net()
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        loader = DataLoader(examples, batch_size=16, sampler=daso.Sampler(examples, batch_size=16))
        run = daso.Run(
            model, optimizer, epochs=2, steps_per_epoch=len(loader), out=f"{out}/{way}", **flags
        )
        for _ in run.epochs():
            for x, y in run.batches(loader):
                loss = F.cross_entropy(model(x), y)
                if way == "step":
                    run.step(loss)
                    continue
                if way == "calls":
                    run.backward(loss)
                    run.average()
                else:
                    optimizer.zero_grad()
                    loss.backward()
                    run.average(loss)
                optimizer.step()
                run.exchange()
        ends.append(run._core.flat_parameters.clone())
    same = all(torch.equal(ends[0], one) for one in ends[1:])
    print("same" if same else "different")


def workers(out: str, **flags) -> None:
    """Loader workers are forked while exchanges are on their way."""
    examples = data(256)
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    loader = DataLoader(
        examples, batch_size=16, sampler=daso.Sampler(examples, batch_size=16), num_workers=2
    )
    run = daso.Run(model, optimizer, epochs=3, steps_per_epoch=len(loader), out=out, **flags)
    for _ in run.epochs():
        for x, y in run.batches(loader):
            run.step(F.cross_entropy(model(x), y))
    print("done")


def lost(out: str, **flags) -> None:
    """Rank 1 raises an exception of its own."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    run = daso.Run(model, optimizer, epochs=50, steps_per_epoch=8, out=out, **flags)
    try:
        for _ in run.epochs():
            for i in run.batches(range(8)):
                if daso.init().rank == 1 and i == 4:
                    raise ValueError("out of cheese")
                run.step(model(torch.ones(2, 10)).sum())
    except daso.PeerError as error:
        print(f"PeerError: {error}")
        sys.exit(3)


def untouched(out: str, **flags) -> None:
    """A host process is as it was."""
    before = (dict(os.environ), torch.get_num_threads(), signal.getsignal(signal.SIGINT))
    world = daso.init()
    model = net()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    run = daso.Run(model, "sgd", lr=0.1, epochs=1, steps_per_epoch=4, out=out, **flags)
    for _ in run.epochs():
        for _ in run.batches(range(4)):
            run.step(model(torch.ones(2, 10)).sum())
    assert world.rank > 0 or "train_loss" in run.metrics
    assert "recent_loss" not in run.metrics  # which only files have
    after = (dict(os.environ), torch.get_num_threads(), signal.getsignal(signal.SIGINT))
    assert before == after
    assert torch.equal(torch.rand(3), expected), "random numbers were drawn"
    print(json.dumps({"rank": world.rank, "size": world.size, "nodes": world.nodes}))


if __name__ == "__main__":
    torch.set_num_threads(1)
    globals()[sys.argv[1]](sys.argv[2], **flags_of(sys.argv[3:]))
