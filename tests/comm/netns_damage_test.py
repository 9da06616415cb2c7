# SPDX-License-Identifier: Apache-2.0
"""`daso train --backend tcp` through somebody on the way who turns bits of what ranks send to each
other. All ranks are in one network namespace, whose firewall leads their connections there. Needs
root.

Run as: netns_damage_test.py DASO
"""
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMIT = 100  # seconds
FAILED = 1
PEER_LOST = 3
SPACING = 700_001  # more than a letter has, so that none is damaged twice
PORTS = range(42000, 42020)
RELAY_PORT = 42100
RELAY_GROUP = 42100  # by which the firewall knows who is on the way
ORIGINAL_DESTINATION = 80  # SO_ORIGINAL_DST


class Relay:
    """Carries bytes in both directions, and turns a bit of every `spacing`-th."""

    def __init__(self, spacing: int):
        self.spacing = spacing
        self.turned = 0
        self.listening = socket.create_server(("127.0.0.1", RELAY_PORT))
        threading.Thread(target=self.admit, daemon=True).start()

    def admit(self) -> None:
        while True:
            try:
                caller, _ = self.listening.accept()
            except OSError:
                return  # closed
            port, address = struct.unpack_from("!2xH4s", caller.getsockopt(
                socket.SOL_IP, ORIGINAL_DESTINATION, 16))
            called = socket.create_connection((socket.inet_ntoa(address), port))
            for pair in ((caller, called), (called, caller)):
                threading.Thread(target=self.carry, args=pair, daemon=True).start()

    def carry(self, source: socket.socket, target: socket.socket) -> None:
        carried = 0
        try:
            while data := bytearray(source.recv(1 << 16)):
                first = -carried % self.spacing
                for place in range(first, len(data), self.spacing):
                    if carried + place > 0:  # not the handshake's first byte
                        data[place] ^= 1
                        self.turned += 1
                carried += len(data)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            source.close()  # one of them is gone, and the other hears of it
            target.close()

    def close(self) -> None:
        self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()


class Damage(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="daso-damage-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def train(self, strategy: str, name: str, *flags: str, epochs: str = "3") -> subprocess.CompletedProcess:
        flags = flags or ("--backend", "tcp", "--ports", f"{PORTS[0]}-{PORTS[-1]}")
        return subprocess.run(
            [DASO, "train", "--data", f"idx:{ROOT / 'tests' / 'digits'}", "--model", "mlp", "--epochs", epochs,
             "--nodes", "3", "--ranks-per-node", "1", "--strategy", strategy,
             "--on-failure", "stop", "--timeout", "20",
             "--seed", "1", "--trace", "none", "--out", self.folder / name, *flags],
            text=True, capture_output=True, timeout=LIMIT, group=0,
            env={**os.environ, "OMP_NUM_THREADS": "1"})

    def model_of(self, name: str) -> bytes:
        weights = self.folder / f"{name}.safetensors"
        subprocess.run([DASO, "export", self.folder / name, "--format", "safetensors", "--to", weights],
                       check=True, stdout=subprocess.DEVNULL, timeout=LIMIT)
        return weights.read_bytes()

    def test_damage_now_and_then_changes_nothing(self):
        for strategy in ("daso", "local", "sync"):
            plain = self.train(strategy, f"{strategy}-plain")
            self.assertEqual(plain.returncode, 0, plain.stderr)
            relay = Relay(spacing=SPACING)
            led = self.lead_through_relay()
            damaged = self.train(strategy, f"{strategy}-damaged")
            led()
            relay.close()
            self.assertEqual(damaged.returncode, 0, damaged.stderr)
            self.assertGreater(relay.turned, 10, strategy)
            self.assertEqual(self.model_of(f"{strategy}-plain"), self.model_of(f"{strategy}-damaged"))

    def test_a_letter_that_is_damaged_twice_is_an_error(self):
        relay = Relay(spacing=10_007)  # less than a letter has
        self.addCleanup(relay.close)
        self.addCleanup(self.lead_through_relay())
        run = self.train("sync", "run")
        self.assertEqual(run.returncode, PEER_LOST, run.stderr)
        self.assertRegex(run.stderr, r"rank \d at 127\.0\.0\.1:420\d\d to rank \d: letter \d+/\d+ of \d+ bytes from it was "
                                     r"damaged on the way, and again when it was sent once more")

    def test_no_run_ends_well_that_was_damaged_where_nobody_sends_again(self):
        for strategy in ("daso", "local", "sync"):
            # More than the store's connections carry, so that only those between ranks are hit.
            relay = Relay(spacing=3_000_017)
            led = self.lead_through_relay("1024:65535")
            run = self.train(strategy, strategy, "--backend", "gloo", epochs="1000")
            led()
            relay.close()
            self.assertGreater(relay.turned, 0, run.stderr)
            self.assertIn(run.returncode, (FAILED, PEER_LOST), run.stderr)
            self.assertRegex(run.stderr, "was damaged on its way|are not the same")

    def lead_through_relay(self, ports: str = f"{PORTS[0]}:{PORTS[-1]}"):
        rule = ["OUTPUT", "-t", "nat", "-p", "tcp", "--dport", ports, "-m", "owner",
                "!", "--gid-owner", str(RELAY_GROUP), "-j", "REDIRECT", "--to-ports", str(RELAY_PORT)]
        subprocess.run(["iptables", "-A", *rule], check=True)
        return lambda: subprocess.run(["iptables", "-D", *rule], check=True)


if __name__ == "__main__":
    if "--inside" not in sys.argv:
        os.execvp("unshare", ["unshare", "--net", sys.executable, __file__, *sys.argv[1:], "--inside"])
    DASO = sys.argv[1]
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    os.setegid(RELAY_GROUP)
    unittest.main(argv=sys.argv[:1], verbosity=2, warnings="ignore")
