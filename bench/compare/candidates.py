# SPDX-License-Identifier: Apache-2.0
"""The command of every candidate in a cell: our strategies, and programs of others."""
import argparse
import dataclasses

from compare.cells import STALL_MS, Cell
from compare.runs import ROOT

PEERS = ROOT / "bench" / "peers"
LAYERS = 20
FORWARD_MS = 80
BACKWARD_MS = 160
SMALL_BUCKET_MB = 1  # DDP's best seen in the base cell
STRATEGIES = ("none", "node", "sync", "local", "daso")
# Blocking in every step.
STEADY = ("sync", "ddp", "ddp-1mb", "ddp-bf16")
DDP = {"ddp": ("none", 25), "ddp-1mb": ("none", SMALL_BUCKET_MB),
       "ddp-bf16": ("bf16", SMALL_BUCKET_MB)}
HEAT_PYTHON = ROOT / ".venv-peers" / "bin" / "python3"
# Flags of MPI, and of the program: as it comes, at its best, and with a wait that its own schedule
# never chooses.
HEAT = {"heat": ([], ["--wait", 1]), "heat-ring": (["--ring"], ["--progress", "--wait", 2]),
        "heat-wait3": (["--ring"], ["--progress", "--wait", 3])}
EVERYWHERE = (*STRATEGIES, *DDP)
ALL = (*EVERYWHERE, "daso-python", "post-local", *HEAT)


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a run takes place, and what it draws from."""
    cluster: str
    seed: int


def of_cell(cell: Cell) -> tuple[str, ...]:
    return ALL if cell.name == "base" else EVERYWHERE


def command(candidate: str, cell: Cell, place: Place, options: argparse.Namespace) -> list[str]:
    ranks = ["--nodes", cell.nodes, "--ranks-per-node", cell.ranks_per_node,
             "--cluster", place.cluster]
    steps, warmup = cell.steps, cell.warmup_steps
    if candidate in STEADY:
        steps, warmup = cell.blocking_steps, cell.blocking_warmup_steps
    work = ["--layers", LAYERS, "--parameters", cell.parameters, "--forward-ms", FORWARD_MS,
            "--backward-ms", BACKWARD_MS, "--steps", steps, "--warmup-steps", warmup]
    if cell.random:
        work += ["--noise", cell.noise, "--stall-chance", cell.stall_chance,
                 "--stall-ms", STALL_MS, "--seed", place.seed]
    if candidate in STRATEGIES:
        # Steps are filled up to whole rounds; where every step blocks a round is one.
        cadence = [1, 1] if candidate in STEADY else [4, 2]
        words = [options.daso, "bench", "step", "--strategy", candidate, *ranks, *work,
                 "--skip", cadence[0], "--wait", cadence[1], "--exchange", "sharded",
                 "--wire", "int8", "--json"]
    elif candidate in HEAT:
        of_mpi, own = HEAT[candidate]
        words = [PEERS / "mpi_run", *ranks, *of_mpi, "--limit", options.limit, "--", HEAT_PYTHON,
                 PEERS / "heat_daso.py", "--skip", 4, *own, "--bucket-mb", SMALL_BUCKET_MB, *work]
    elif candidate == "daso-python":
        words = [options.daso, "run", *ranks, "--", options.python, PEERS / "daso_python.py",
                 "--skip", 4, "--wait", 2, *work]
    elif candidate == "post-local":
        words = [options.daso, "run", *ranks, "--", options.python, PEERS / "post_local.py",
                 "--period", 4, "--bucket-mb", SMALL_BUCKET_MB, *work]
    else:
        hook, bucket = DDP[candidate]
        words = [options.daso, "run", *ranks, "--", options.python, PEERS / "ddp.py",
                 "--hook", hook, "--bucket-mb", bucket, *work]
    return [str(word) for word in words]
