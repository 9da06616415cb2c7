# SPDX-License-Identifier: Apache-2.0
"""Ranks of ours that torchrun's agents start again, on the store that they had before: the one whose
rank was lost counts that as a restart, the others may not.

Run as: torchrun_elastic_test.py PROGRAM (fault_probe)
"""
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

LIMIT = 100  # seconds


class Agent:
    """torchrun, and what it and its ranks have printed."""

    def __init__(self, port: int, until: pathlib.Path):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "2",
             "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "test",
             "--local-addr", "127.0.0.1", "--max-restarts", "3",
             "--no-python", PROGRAM, "20"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "DASO_TEST_UNTIL": str(until)})
        self.lines = []
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self) -> None:
        for line in self.process.stdout:
            self.lines.append(line)

    def ranks(self) -> list[int]:
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(pid) for pid in children.split()
                if os.path.realpath(f"/proc/{pid}/exe") == os.path.realpath(PROGRAM)]

    def end(self) -> int:
        code = self.process.wait(LIMIT)
        self.reader.join(LIMIT)
        return code


def said(agents: list[Agent]) -> str:
    return "".join(line for agent in agents for line in agent.lines)


class Elastic(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="daso-elastic-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def start(self, port: int) -> Agent:
        agent = Agent(port, self.folder / "end")
        self.addCleanup(agent.process.stdout.close)
        self.addCleanup(agent.process.wait)
        self.addCleanup(agent.process.terminate)
        return agent

    def wait_for(self, agents: list[Agent], text: str, times: int) -> None:
        """Either may have rank 0."""
        deadline = time.monotonic() + LIMIT
        while said(agents).count(text) < times:
            assert time.monotonic() < deadline, f"not {times} times '{text}' in: {said(agents)}"
            time.sleep(0.05)  # others need the cores

    def test_a_lost_rank_is_started_again_with_the_others(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        agents = [self.start(port), self.start(port)]
        for life in (1, 2, 3):
            self.wait_for(agents, "going on with 4 ranks", life)
            if life == 3:
                break
            ranks = agents[life - 1].ranks()
            self.assertEqual(2, len(ranks), said(agents))
            os.kill(ranks[0], signal.SIGKILL)
        (self.folder / "end").touch()
        for agent in agents:
            self.assertEqual(agent.end(), 0, said(agents))
        self.assertNotIn("is taken", said(agents))


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main(verbosity=2)
