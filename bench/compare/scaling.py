# SPDX-License-Identifier: Apache-2.0
"""What an exchange costs, against the number of nodes and the size of the model."""
import argparse

from compare.runs import run

NODES = (2, 4, 8, 16)
PARAMETERS = (640_000, 2_560_000, 10_240_000)
BASE_PARAMETERS = 2_560_000
BASE_NODES = 4
SKIP = 4
ROUNDS = 3
STRATEGIES = ("node", "daso")
# One in every direction from the base.
POINTS = ([(nodes, BASE_PARAMETERS) for nodes in NODES]
          + [(BASE_NODES, size) for size in PARAMETERS if size != BASE_PARAMETERS])


def command(strategy: str, nodes: int, parameters: int, options: argparse.Namespace) -> list[str]:
    """Virtual nodes of one machine, one rank each: bytes and processor time are those of a node
    whatever the link."""
    words = [options.daso, "bench", "step", "--strategy", strategy, "--nodes", nodes,
             "--ranks-per-node", 1, "--parameters", parameters, "--forward-ms", 80,
             "--backward-ms", 160, "--steps", 16, "--warmup-steps", 8, "--skip", SKIP, "--wait", 2,
             "--exchange", "sharded", "--wire", "int8", "--json"]
    return [str(word) for word in words]


def measure(options: argparse.Namespace, tell) -> list[dict]:
    points = []
    for nodes, parameters in POINTS:
        point = {"nodes": nodes, "parameters": parameters, "exchange_cpu": []}
        for number in range(ROUNDS):
            cpu = {}
            for strategy in STRATEGIES:
                found = run(command(strategy, nodes, parameters, options), options.limit)
                cpu[strategy] = found["cpu_seconds"]
                point["exchange_bytes"] = found["bytes_between_nodes"] * SKIP
            point["exchange_cpu"].append((cpu["daso"] - cpu["node"]) * SKIP)
            tell(f"scaling: {nodes} nodes, {parameters} parameters, {number + 1}/{ROUNDS}: "
                 f"{point['exchange_cpu'][-1] * 1000:.1f} ms of processor an exchange")
        points.append(point)
    return points


def bound(nodes: int, parameters: int) -> float:
    """Bytes that a node must send so that every element reaches its owner and comes back, int8:
    260 bytes for 256 elements."""
    return 2 * (nodes - 1) / nodes * parameters * 260 / 256
