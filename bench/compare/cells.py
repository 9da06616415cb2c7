# SPDX-License-Identifier: Apache-2.0
"""The emulated jobs: a base, and cells that differ from it in one factor."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Cell:
    name: str
    differs: str  # from the base, in words
    nodes: int = 4
    ranks_per_node: int = 2
    rate: str = "100mbit"
    delay: str = "200us"
    parameters: int = 2_560_000
    noise: float = 0
    stall_chance: float = 0
    rounds: int = 3
    steps: int = 12
    warmup_steps: int = 4
    # Of candidates whose every step blocks, and which are steady: fewer are needed.
    blocking_steps: int = 4
    blocking_warmup_steps: int = 3

    @property
    def limited(self) -> bool:
        return self.rate != "unlimited"

    @property
    def random(self) -> bool:
        return self.noise > 0 or self.stall_chance > 0


STALL_MS = 500
CELLS = {cell.name: cell for cell in (
    Cell("base", "4 nodes × 2 ranks, 100 Mbit/s, 200 µs, 2.56 M parameters", rounds=5,
         steps=48, warmup_steps=8, blocking_steps=8, blocking_warmup_steps=4),
    Cell("rate-20", "20 Mbit/s", rate="20mbit", blocking_steps=2),
    Cell("rate-500", "500 Mbit/s", rate="500mbit"),
    Cell("rate-unlimited", "no limit of the rate", rate="unlimited"),
    Cell("delay-50us", "50 µs", delay="50us"),
    Cell("delay-2ms", "2 ms", delay="2ms"),
    Cell("delay-10ms", "10 ms", delay="10ms"),
    Cell("nodes-2", "2 nodes", nodes=2),
    Cell("nodes-8", "8 nodes", nodes=8),
    Cell("ranks-1", "1 rank per node", ranks_per_node=1),
    Cell("model-10x", "25.6 M parameters", parameters=25_600_000, blocking_steps=2),
    Cell("noise", "the last node slower by 0 … 40 % at random", noise=0.2, steps=24,
         blocking_steps=24, blocking_warmup_steps=4),
    Cell("stalls", "a node pauses 0.5 s before a step with probability 0.05", stall_chance=0.05,
         steps=24, blocking_steps=24, blocking_warmup_steps=4),
)}
