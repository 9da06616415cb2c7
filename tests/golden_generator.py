# SPDX-License-Identifier: Apache-2.0
"""A second program for golden cases, written from docs/algorithm.md alone: plain Python numbers, no
ranks, no library of ours. It makes random valid training cases, and computes again what the golden
files expect.

Run as: python3 tests/golden_generator.py make SEED FILE...   one random training case a file
        python3 tests/golden_generator.py check FILE...       does it come to the same numbers?
"""
import json
import math
import random
import struct
import sys

BLOCK = 256
PHASES = ("warmup", "cycling", "cooldown")


# --- training cases (algorithm.md 3, 4 and 8) ---
def speakers(exchange, nodes):
    turn = exchange % max(nodes)
    return [turn % ranks for ranks in nodes]


def weighted_mean(vectors, weights):
    return [sum(w * v for w, v in zip(weights, column)) for column in zip(*vectors)]


class Training:
    """All nodes at once: since the ranks of a node are equal, one copy of each will do."""

    def __init__(self, case):
        self.case = case
        self.nodes = case["nodes"]
        self.weights = [ranks / sum(self.nodes) for ranks in self.nodes]
        self.x = [list(case["start"]) for _ in self.nodes]
        self.momentum = [None for _ in self.nodes]
        self.exchanges = 0
        self.flying = None  # (number, step of the start, what the nodes sent)
        self.events = []
        self.parameters = []

    def run(self):
        step = 0
        for phase, skip, wait in self.case["schedule"]:
            for batch in range(self.case["batches"]):
                self.step(step, batch, phase, skip, wait)
                self.parameters.append([list(x) for x in self.x])
                step += 1
        return {"events": self.events, "parameters": self.parameters}

    def step(self, step, batch, phase, skip, wait):
        gradients = self.node_gradients()
        if phase != "cycling":
            gradients = [weighted_mean(gradients, self.weights)] * len(self.nodes)
            self.events.append({"step": step, "do": "blocking"})
        for node, gradient in enumerate(gradients):
            self.descend(node, gradient)
        if phase != "cycling" or len(self.nodes) == 1:
            return
        last = batch == self.case["batches"] - 1
        if self.flying and (step - self.flying[1] == wait or last):
            self.merge(step)
        if last:
            self.agree(step)
        elif batch % skip == 0:
            self.note(step, "start")
            self.flying = (self.exchanges - 1, step, [list(x) for x in self.x])

    def node_gradients(self):
        """The mean over the ranks of each node."""
        curvature, targets = self.case["curvature"], self.case["targets"]
        means, first = [], 0
        for ranks, x in zip(self.nodes, self.x):
            target = weighted_mean(targets[first : first + ranks], [1 / ranks] * ranks)
            means.append([c * (xj - tj) for c, xj, tj in zip(curvature, x, target)])
            first += ranks
        return means

    def descend(self, node, gradient):
        decay, momentum = self.case.get("weight_decay", 0), self.case.get("momentum", 0)
        d = [g + decay * x for g, x in zip(gradient, self.x[node])]
        old = self.momentum[node]
        self.momentum[node] = d if old is None else [momentum * b + v for b, v in zip(old, d)]
        self.x[node] = [x - self.case["lr"] * b for x, b in zip(self.x[node], self.momentum[node])]

    def merge(self, step):
        exchange, started, sent = self.flying
        staleness, peers, mean = step - started, len(self.nodes), weighted_mean(sent, self.weights)
        for node, x in enumerate(self.x):
            if self.case["merge"] == "paper":
                own = 2 * staleness
                self.x[node] = [(own * v + peers * m) / (own + peers) for v, m in zip(x, mean)]
            else:
                self.x[node] = [v + (m - s) for v, m, s in zip(x, mean, sent[node])]
        self.flying = None
        self.events.append(
            {"step": step, "do": "merge", "exchange": exchange, "staleness": staleness}
        )

    def agree(self, step):
        self.note(step, "exchange")
        self.events[-1]["staleness"] = 0
        for state in (self.x, self.momentum):
            state[:] = [weighted_mean(state, self.weights)] * len(self.nodes)

    def note(self, step, what):
        number = self.exchanges
        self.events.append(
            {"step": step, "do": what, "exchange": number, "speakers": speakers(number, self.nodes)}
        )
        self.exchanges += 1


def random_case(name, rng):
    nodes = random_nodes(rng)
    size = rng.choice([1, 2, 3, 7, 255, 256, 257, 600, 2500])
    schedule = []
    for _ in range(rng.randint(1, 3)):
        phase = rng.choice(PHASES + ("cycling",) * 3)
        skip = rng.randint(1, 6)
        schedule.append([phase, skip, rng.randint(1, skip)] if phase == "cycling" else [phase, 0, 0])
    case = {
        "name": name,
        "nodes": nodes,
        "start": [rng.uniform(-1, 1) for _ in range(size)],
        "curvature": [rng.uniform(0.1, 2) for _ in range(size)],
        "targets": [[rng.uniform(-3, 3) for _ in range(size)] for _ in range(sum(nodes))],
        "lr": rng.choice([0.01, 0.05, 0.1]),
        "merge": rng.choice(["paper", "corrected"]),
        "batches": rng.choice([1, 2, 5, 8, 13]),
        "schedule": schedule,
    }
    if rng.random() < 0.5:
        case["momentum"] = rng.choice([0.5, 0.9])
    if rng.random() < 0.5:
        case["weight_decay"] = rng.choice([1e-4, 1e-2])
    case["expect"] = Training(case).run()
    case["tolerance"] = 1e-5
    return case


def random_nodes(rng):
    """1 to 12 ranks, cut anywhere."""
    left, nodes = rng.randint(1, 12), []
    while left:
        nodes.append(rng.randint(1, min(left, 5)))
        left -= nodes[-1]
    return nodes


# --- schedules and periods (algorithm.md 5) ---
def plateau(case):
    patience, threshold = case.get("patience", 2), case.get("threshold", 0.05)
    epochs, warmup = case["epochs"], case["warmup"]
    pair, best, bad, out = (case["skip"], case["wait"]), math.inf, 0, []
    for epoch, loss in enumerate(case["losses"]):
        cooling = epoch >= epochs - case["cooldown"]
        phase = "cooldown" if cooling else "warmup" if epoch < warmup else "cycling"
        out.append([phase, *(pair if phase == "cycling" else (0, 0))])
        if phase == "cooldown" or (phase == "warmup" and epoch + 1 != warmup):
            continue
        goal = best * (1 + threshold if best < 0 else 1 - threshold)
        if loss is not None and loss < goal:
            best, bad = loss, 0
        else:
            bad += 1
        if bad > patience:
            bad = 0
            again = pair[0] == 1
            pair = tuple(case[name] for name in ("skip", "wait")) if again else halved(pair)
    return out


def halved(pair):
    return tuple(max(1, value // 2) for value in pair)


def periods(case):
    rates, batches, out, next_start = case["learning_rates"], case["batches"], [], 0
    for step, rate in enumerate(rates):
        batch = step % batches
        if batch == batches - 1 or (batch != 0 and batch < next_start):
            continue
        skip = case["skip"]
        rising = step + 1 < len(rates) and rates[step + 1] > rate
        if not rising:
            skip = batches if rate <= 0 else max(skip, math.floor((case["alpha"] / rate) ** 2))
        out.append([step, skip])
        next_start = batch + skip
    return out


# --- exchanges on the int8 wire (algorithm.md 6) ---
def fp32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def encode(values):
    """q of every element and the scale of every block; the last block is padded with zeros."""
    q, scales = [], []
    for first in range(0, len(values), BLOCK):
        block = values[first : first + BLOCK]
        scale = fp32(max(abs(v) for v in block) / 127)
        scale = scale if scale >= 2.0**-126 else 0.0
        scales.append(scale)
        q += [max(-127, min(127, round(fp32(v / scale)))) if scale else 0 for v in block]
    return q, scales


def decode(q, scales):
    return [fp32(value * scales[i // BLOCK]) for i, value in enumerate(q)]


def exchanges(case):
    ranks = sum(case["nodes"])
    weights = [fp32(node / ranks) for node in case["nodes"]]
    rest, rounds = [0.0] * case["elements"], []
    for given in case["rounds"]:
        sent = [encode([fp32(v) for v in one]) for one in given["differences"]]
        mean = [0.0] * case["elements"]
        for node, (weight, one) in enumerate(zip(weights, sent)):
            terms = [fp32(weight * v) for v in decode(*one)]
            mean = terms if node == 0 else [fp32(m + t) for m, t in zip(mean, terms)]
        total = [fp32(m + r) for m, r in zip(mean, rest)]
        back_q, back_scales = encode(total)
        back = decode(back_q, back_scales)
        rest = [fp32(t - b) for t, b in zip(total, back)]
        rounds.append(
            {"q": [q for q, _ in sent], "scales": [scales for _, scales in sent], "mean": mean,
             "back_q": back_q, "back_scales": back_scales, "back": back, "rest": rest}
        )
    return rounds


# --- the given files ---
def flat(value):
    return [v for part in value for v in flat(part)] if isinstance(value, list) else [value]


def close(a, b, tolerance):
    a, b = flat(a), flat(b)
    return len(a) == len(b) and all(abs(x - y) <= tolerance for x, y in zip(a, b))


def same(case):
    if "targets" in case:
        ours, expected = Training(case).run(), case["expect"]
        equal = ours["events"] == expected["events"]
        return equal and close(ours["parameters"], expected["parameters"], 1e-7)
    if "losses" in case:
        return plateau(case) == case["expect"]
    if "learning_rates" in case:
        return periods(case) == case["expect"]
    return all(
        [fp32(v) for v in flat(given[name])] == flat(ours[name])
        for ours, given in zip(exchanges(case), case["rounds"])
        for name in ours
    )


def check(paths):
    wrong = 0
    for path in paths:
        with open(path) as file:
            cases = json.load(file)
        for number, case in enumerate(cases if isinstance(cases, list) else [cases]):
            if not same(case):
                wrong += 1
                print(f"{path}: {case.get('name', number)}: comes out differently")
    return 1 if wrong or not paths else 0


def make(seed, paths):
    rng = random.Random(seed)
    for number, path in enumerate(paths):
        with open(path, "w") as file:
            json.dump(random_case(f"seed {seed}, case {number}", rng), file)
    return 0


if __name__ == "__main__":
    verb, *rest = sys.argv[1:] or [""]
    if verb == "check":
        sys.exit(check(rest))
    if verb == "make" and len(rest) > 1:
        sys.exit(make(int(rest[0]), rest[1:]))
    sys.exit(__doc__)
