# SPDX-License-Identifier: Apache-2.0
"""The Python package as its users run it: real ranks, real files.

Run as: run_test.py DASO PYTHON FOLDER_OF_THE_PACKAGE MPIRUN
"""

import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

DASO, PYTHON, PACKAGE, MPIRUN = sys.argv[1:5]
HERE = pathlib.Path(__file__).parent
DIGITS = HERE.parent / "digits"
JOB = str(HERE / "job.py")
ENVIRONMENT = {**os.environ, "PYTHONPATH": PACKAGE, "DASO_PROGRAM": DASO, "OMP_NUM_THREADS": "1"}
TWO_NODES = [DASO, "run", "--nodes", "2", "--ranks-per-node", "1", "--"]


def call(*words: str, code: int = 0, limit: float = 120) -> subprocess.CompletedProcess:
    done = subprocess.run(words, text=True, capture_output=True, timeout=limit, env=ENVIRONMENT)
    assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def script(text: str, *words: str, code: int = 0) -> subprocess.CompletedProcess:
    return call(*words, PYTHON, "-c", text, code=code)


class Package(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.out = self.folder.name + "/run"

    def tearDown(self):
        self.folder.cleanup()

    def job(self, name: str, *flags: str, ranks=TWO_NODES, code: int = 0):
        return call(*ranks, PYTHON, JOB, name, self.out, *flags, code=code)

    def model(self, out: str) -> bytes:
        return pathlib.Path(out, "model.safetensors").read_bytes()

    def test_the_four_calls_are_a_step(self):
        for strategy in ("daso", "sync"):
            self.out = f"{self.folder.name}/{strategy}"
            self.assertIn("same", self.job("by_hand", f"strategy={strategy}").stdout)

    def test_accumulated_gradients_are_those_of_a_larger_batch(self):
        for strategy in ("sync", "none"):
            self.out = f"{self.folder.name}/{strategy}"
            self.assertIn("same", self.job("parts", f"strategy={strategy}").stdout)

    def test_takes_modules_of_all_kinds(self):
        self.assertIn("same", self.job("kinds", "strategy=sync").stdout)

    def test_a_compiled_model_learns_as_a_plain_one(self):
        self.assertIn("same", self.job("compiled", "strategy=sync").stdout)

    def test_ranks_count_by_their_examples_in_a_score(self):
        done = self.job("weights", "strategy=sync")
        self.assertIn("some ranks give \"examples\" with their score, and some do not", done.stdout)

    def test_goes_back_to_the_middle_of_an_exchange(self):
        self.assertIn("same", self.job("in_memory", "schedule=fixed", "skip=4", "wait=2").stdout)

    def test_loader_workers_are_forked(self):
        self.assertIn("done", self.job("workers").stdout)

    def test_leaves_the_process_as_it_was(self):
        self.assertIn('"size": 1', call(PYTHON, JOB, "untouched", self.out).stdout)

    def test_names_the_rank_that_ended(self):
        done = self.job("lost", code=1)
        self.assertIn("PeerError", done.stdout)
        self.assertIn("out of cheese", done.stdout)

    def test_an_uncaught_peer_error_counts_as_a_lost_peer(self):
        """Though Python ends with 1. The rank that goes says nothing and ends well."""
        for text in (
            "w = daso.init()\nw.barrier()\nos._exit(0) if w.rank else w.barrier()",
            "os._exit(0) if os.environ['RANK'] == '1' else daso.init(join_limit=1)",
        ):
            done = script(f"import daso, os\n{text}", *TWO_NODES, code=3)
            self.assertIn("daso.PeerError: ", done.stderr)
        self.assertIn("rank 1 of 2 did not join within 1 s", done.stderr)
        text = (
            "import daso, sys\n"
            "try: daso.Run(None, steps_per_epoch=1, world=daso.init(device='tpu'))\n"
            "except daso.Error as error: sys.exit(error.exit_code)"
        )
        script(text, code=2)

    def test_ctrl_c_ends_the_wait_for_other_ranks(self):
        """Of rank 0, which waits for all, and of another, which waits for rank 0."""
        text = (
            "import daso\n"
            "try: daso.init()\n"
            "except KeyboardInterrupt: print('interrupted', flush=True); raise"
        )
        for rank in (0, 1):
            with socket.create_server(("127.0.0.1", 0)) as host:
                port = host.getsockname()[1]
                if rank == 0:
                    host.close()  # its own to listen on
                place = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
                waiting = subprocess.Popen(
                    [PYTHON, "-c", text],
                    text=True,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env={**ENVIRONMENT, **place, "MASTER_PORT": str(port)},
                )
                self.addCleanup(waiting.kill)
                if rank == 0:
                    self.await_listener(port)
                else:
                    host.settimeout(60)
                    kept = host.accept()  # answered by nobody
                begin = time.monotonic()
                waiting.send_signal(signal.SIGINT)
                self.assertEqual(waiting.stdout.readline(), "interrupted\n")
                self.assertLess(time.monotonic() - begin, 2)
                _, said = waiting.communicate(timeout=20)
                self.assertEqual(waiting.returncode, -signal.SIGINT, said)
                if rank == 1:
                    kept[0].close()

    def test_is_interrupted_while_it_waits_for_others(self):
        run = "daso.Run(torch.nn.Linear(2, 2), 'sgd', steps_per_epoch=2, progress=False)"
        for call in ("w.all_reduce(torch.ones(2))", "w.gather('a')", run):
            text = (
                "import daso, sys, torch\n"
                "w = daso.init()\n"
                "w.barrier()\n"
                "if w.rank == 1: sys.stdin.readline(); sys.exit(5)\n"
                f"try: print('waits', flush=True); {call}\n"
                "except KeyboardInterrupt: print('interrupted', flush=True); raise"
            )
            with socket.create_server(("127.0.0.1", 0)) as host:
                port = host.getsockname()[1]
            ranks = []
            for rank in (0, 1):
                place = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
                ranks.append(
                    subprocess.Popen(
                        [PYTHON, "-c", text],
                        text=True,
                        cwd=self.folder.name,
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE,
                        env={**ENVIRONMENT, **place, "MASTER_PORT": str(port)},
                    )
                )
                self.addCleanup(ranks[-1].kill)
            with self.subTest(call):
                self.assertEqual(ranks[0].stdout.readline(), "waits\n")
                begin = time.monotonic()
                ranks[0].send_signal(signal.SIGINT)
                self.assertEqual(ranks[0].stdout.readline(), "interrupted\n")
                self.assertLess(time.monotonic() - begin, 2)
                _, said = ranks[0].communicate(timeout=20)
                self.assertEqual(ranks[0].returncode, -signal.SIGINT, said)
            ranks[1].communicate("\n", timeout=60)
            ranks[0].stdin.close()

    def await_listener(self, port: int):
        limit = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=60).close()
                return
            except ConnectionRefusedError:
                self.assertLess(time.monotonic(), limit)
                time.sleep(0.05)

    def test_starts_under_other_launchers(self):
        torchrun = [PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        torchrun += ["--local-addr", "127.0.0.1", "--no-python"]
        launchers = [torchrun]
        if MPIRUN:
            launchers.append([MPIRUN, "--allow-run-as-root", "--oversubscribe", "-n", "2"])
        for number, launcher in enumerate(launchers):
            self.out = f"{self.folder.name}/{number}"
            self.assertIn('"size": 2', self.job("untouched", ranks=launcher).stdout)

    def test_goes_on_where_it_was_stopped(self):
        whole = self.out
        self.job("plain")
        for number, flags in enumerate([[], ["shuffle=True", "strategy=sync"]]):
            if flags:
                self.out = whole = f"{self.folder.name}/whole"
                self.job("plain", *flags)
            self.out = f"{self.folder.name}/stopped{number}"
            self.job("plain", "stop_at=9", *flags, code=75)
            self.job("plain", "resume=True", *flags)
            self.assertEqual(self.model(self.out), self.model(whole))

    def test_goes_on_from_the_end_of_an_epoch(self):
        self.job("plain")
        whole = self.model(self.out)
        self.out = f"{self.folder.name}/killed"
        self.job("plain", "checkpoint_every=1epochs", "kill_at=40", code=3)
        self.job("plain", "checkpoint_every=1epochs", "resume=True")
        self.assertEqual(self.model(self.out), whole)

    def test_refuses_what_does_not_fit(self):
        begin = "import daso, torch; model = torch.nn.Linear(2, 2); "
        cases = [
            ("daso.Run(model, 'sgd', steps_per_epoch=2, epocs=1)", "did you mean --epochs?"),
            ("daso.Run(model, 'sdg', steps_per_epoch=2)", "did you mean sgd?"),
            ("daso.Run(model, 'sgd', steps_per_epoch=2, precision='bf16')", "a loop of its own"),
            ("daso.Run(model.double(), 'sgd', steps_per_epoch=2)", "float32"),
            (
                "daso.Run(model, torch.optim.SGD([torch.zeros(2)]), steps_per_epoch=2)",
                "none of the model's",
            ),
            (
                "run = daso.Run(model, 'sgd', steps_per_epoch=3)\n"
                "for _ in run.epochs():\n"
                "  for x in run.batches([torch.ones(1, 2)]): run.step(model(x).sum())",
                "the loader ended after 1 batches",
            ),
            (
                "run = daso.Run(model, 'sgd', steps_per_epoch=3)\n"
                "for _ in run.epochs():\n"
                "  for x in run.batches(range(3)): pass",
                "call run.step(loss)",
            ),
            (
                "run = daso.Run(model, 'sgd', steps_per_epoch=3)\nrun.step(model(torch.ones(1, 2)))",
                "one number",
            ),
        ]
        for text, said in cases:
            done = subprocess.run(
                [PYTHON, "-c", begin + text],
                text=True,
                capture_output=True,
                timeout=60,
                env=ENVIRONMENT,
                cwd=self.folder.name,
            )
            self.assertIn("ConfigError: ", done.stderr, text)
            self.assertIn(said, done.stderr)

    def test_another_pytorch_is_refused_in_a_sentence(self):
        done = script("import torch; torch.__version__ = '2.9.1'; import daso", code=1)
        self.assertIn("was built for PyTorch 2.11.0 and works with no other; this is 2.9.1", done.stderr)

    def test_schedule_and_compare_give_rows(self):
        text = "import daso; print(len(daso.schedule(epochs=3, nodes=2, batches=20)))"
        self.assertEqual(script(text).stdout.strip(), "3")
        small = "synthetic:train=64,test=16,size=8,channels=1"
        text = (
            f"import daso; rows = daso.compare(strategies=['sync', 'daso'], data='{small}', "
            f"model='mlp', epochs=1, nodes=2, ranks_per_node=1, out='{self.out}'); "
            "print([row['strategy'] for row in rows])"
        )
        self.assertEqual(script(text).stdout.strip(), "['sync', 'daso']")

    def test_has_the_bits_of_the_program(self):
        folder = self.folder.name
        bits = [PYTHON, str(HERE / "bits.py")]
        call(*bits, "begin", folder, str(DIGITS))
        program = ["--data", f"idx:{DIGITS}", "--model", "mlp", "--epochs", "2", "--batch-size", "16"]
        program += ["--optimizer", "sgd", "--lr", "0.05", "--init", f"{folder}/first.safetensors"]
        program += ["--nodes", "2", "--ranks-per-node", "1", "--out", f"{folder}/program"]
        call(DASO, "train", *program)
        call(DASO, "export", f"{folder}/program", "--to", f"{folder}/program.safetensors")
        done = call(*TWO_NODES, *bits, "train", folder, str(DIGITS))
        self.assertIn("same", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
