# SPDX-License-Identifier: Apache-2.0
"""`./daso wheel` in an environment of its own: the package, its program, and the README's lines.

Run as: wheel_test.py CHECKOUT PYTHON_WITH_TORCH
The PyTorch of the environment lies elsewhere, as that of a user may.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

CHECKOUT, PYTHON = pathlib.Path(sys.argv[1]), sys.argv[2]
ENVIRONMENT = {
    name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "DASO_PROGRAM")
}


def call(*words, cwd=None) -> subprocess.CompletedProcess:
    done = subprocess.run(
        words, text=True, capture_output=True, timeout=300, env=ENVIRONMENT, cwd=cwd, check=False
    )
    assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        root = pathlib.Path(cls.folder.name)
        cls.root = root
        wheel = sorted((CHECKOUT / "dist").glob("daso-*.whl"), key=os.path.getmtime)[-1]
        call(PYTHON, "-m", "venv", root / "env")
        packages = next((root / "env").glob("lib/python3*/site-packages"))
        torch = call(PYTHON, "-c", "import torch, os; print(os.path.dirname(torch.__path__[0]))")
        (packages / "torch_elsewhere.pth").write_text(torch.stdout)
        cls.python = str(root / "env/bin/python")
        call(cls.python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_the_program_is_there(self):
        daso = self.root / "env/bin/daso"
        self.assertIn("libtorch    2.11.0", call(daso, "doctor").stdout)
        out = str(self.root / "run")
        done = call(daso, "train", "--nodes", "2", "--max-steps", "2", "--out", out)
        self.assertIn("after 2 steps", done.stdout)
        found = call(self.python, "-c", "import daso; print(daso.schedule(epochs=2)[1]['phase'])")
        self.assertEqual(found.stdout.strip(), "cycling")

    def test_the_readme_runs(self):
        text = (CHECKOUT / "README.md").read_text()
        section = text[text.index("## Python") :]
        program = re.search(r"```python\n(.*?)```", section, re.S).group(1)
        (self.root / "train.py").write_text(program)
        daso = self.root / "env/bin/daso"
        done = call(daso, "run", "--nodes", "2", "--", self.python, "train.py", cwd=self.root)
        accuracy = [float(word) for word in re.findall(r"accuracy (\d\.\d+)", done.stdout)]
        self.assertGreater(accuracy[-1], 0.9)
        self.assertTrue((self.root / "model.safetensors").exists())

    def test_nothing_names_the_machine_that_built_it(self):
        package = next((self.root / "env").glob("lib/python3*/site-packages/daso"))
        for file in [*package.rglob("*.so"), package / "bin/daso"]:
            dynamic = call("readelf", "-d", file).stdout
            self.assertNotIn(str(CHECKOUT), dynamic, file)


if __name__ == "__main__":
    if shutil.which("readelf") is None:
        sys.exit("readelf is missing: install binutils")
    call(str(CHECKOUT / "daso"), "wheel")
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
