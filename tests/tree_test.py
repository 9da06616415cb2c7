# SPDX-License-Identifier: Apache-2.0
"""Rules about the tree as a whole: layers, headers, licence lines, and tests that nobody builds.

Run as: python3 tests/tree_test.py
"""
import pathlib
import re
import tempfile
import unittest

# What a layer may include, besides itself; the order is that of the layers.
LAYERS = {
    "base": set(),
    "kernels": {"base"},
    "data": {"base", "kernels"},
    "tensor": {"base", "kernels"},
    "nets": {"base", "kernels", "tensor"},
    "optim": {"base", "kernels", "tensor"},
    "comm": {"base", "kernels"},
    "launch": {"base", "kernels", "comm"},
    "policy": {"base", "kernels", "tensor", "optim"},
}
LAYERS["exchange"] = LAYERS["policy"] | {"policy", "comm"}
LAYERS["strategy"] = LAYERS["exchange"] | {"exchange"}
LAYERS["record"] = LAYERS["strategy"] | {"strategy"}
LAYERS["run"] = LAYERS["record"] | {"record", "data", "nets"}
LAYERS["bench"] = LAYERS["run"] | {"run", "launch"}
LAYERS["verify"] = LAYERS["run"] | {"run", "launch"}
LAYERS["cli"] = LAYERS["bench"] | {"bench", "verify"}
LIBTORCH = ("torch/", "ATen/", "c10/")  # base knows nothing of these
LICENCE = "// SPDX-License-Identifier: Apache-2.0"
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
FOLDERS = ("src", "tests", "bench", "examples")


def problems(root: pathlib.Path) -> list[str]:
    found = []
    headers = {}
    for path in sorted(sources(root)):
        name = path.relative_to(root).as_posix()
        text = path.read_text()
        if not text.startswith(LICENCE + "\n"):
            found.append(f"{name}: the first line must be '{LICENCE}'")
        if name.startswith("src/"):
            includes = INCLUDE.findall(text)
            found += layer_problems(name, includes)
            if name.endswith(".h"):
                headers[name] = includes
    return found + slow_headers(headers) + unbuilt_tests(root)


def sources(root: pathlib.Path) -> list[pathlib.Path]:
    paths = [path for folder in FOLDERS for path in (root / folder).rglob("*")]
    return [path for path in paths if path.name.endswith((".h", ".h.in", ".cpp"))]


def layer_of(name: str) -> str:
    """comm for src/daso/comm/pending.h, cli for src/cli/main.cpp."""
    parts = name.removeprefix("src/").removeprefix("daso/").split("/")
    return parts[0] if len(parts) > 1 else ""


def layer_problems(name: str, includes: list[str]) -> list[str]:
    layer = layer_of(name)
    if layer not in LAYERS:
        return [f"{name}: not in a layer; layers: {', '.join(LAYERS)}"]
    found = []
    for include in includes:
        if include.startswith(("daso/", "bench/", "verify/", "cli/")):
            other = layer_of("src/" + include)
            if other != layer and other not in LAYERS[layer]:
                found.append(f"{name}: {layer} must not include {include}")
        elif layer == "base" and include.startswith(LIBTORCH):
            found.append(f"{name}: base must not include {include}")
    return found


def slow_headers(headers: dict[str, list[str]]) -> list[str]:
    """Headers that see <torch/...>, by themselves or through others; networks need their modules."""
    slow = {}  # by header: the include at fault
    seen = -1
    while len(slow) > seen:
        seen = len(slow)
        for name, includes in headers.items():
            for include in includes:
                if include.startswith("torch/") or "src/" + include in slow:
                    slow.setdefault(name, include)
    return [
        f"{name}: {include} is too slow to compile for a header"
        for name, include in sorted(slow.items())
        if layer_of(name) != "nets" or include == "torch/torch.h"
    ]


def unbuilt_tests(root: pathlib.Path) -> list[str]:
    """Tests that no CMakeLists.txt, in their own folder or one above, names."""
    named = set()
    for lists in (root / "tests").rglob("CMakeLists.txt"):
        for word in re.findall(r"[\w./-]+_test\.cpp", re.sub(r"#.*", "", lists.read_text())):
            named.add(lists.parent / word)
    tests = sorted((root / "tests").rglob("*_test.cpp"))
    return [
        f"{test.relative_to(root).as_posix()}: no CMakeLists.txt names it"
        for test in tests
        if test not in named
    ]


class Tree(unittest.TestCase):
    def test_this_tree_keeps_the_rules(self):
        root = pathlib.Path(__file__).resolve().parent.parent
        self.assertGreater(len(sources(root)), 10)
        self.assertEqual([], problems(root))

    def test_layers_form_an_order(self):
        seen = set()
        for layer, below in LAYERS.items():
            self.assertLessEqual(below, seen, layer)
            for other in below:
                self.assertLessEqual(LAYERS[other], below, f"{layer} <- {other}")
            seen.add(layer)


class BrokenRule(unittest.TestCase):
    def problems_of(self, files: dict[str, str]) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            return problems(root)

    def test_include_that_points_right(self):
        text = LICENCE + '\n#include "daso/comm/world.h"\n#include "daso/base/text.h"\n'
        files = {"src/daso/base/text.cpp": text, "src/daso/comm/world.cpp": text}
        self.assertEqual(
            ["src/daso/base/text.cpp: base must not include daso/comm/world.h"],
            self.problems_of(files),
        )

    def test_libtorch_in_base(self):
        files = {"src/daso/base/text.h": LICENCE + "\n#include <c10/util/Exception.h>\n"}
        self.assertEqual(
            ["src/daso/base/text.h: base must not include c10/util/Exception.h"],
            self.problems_of(files),
        )

    def test_torch_header_in_a_header(self):
        text = LICENCE + "\n#include <torch/torch.h>\n"
        files = {"src/daso/comm/a.h": text, "src/daso/nets/a.h": text, "src/cli/a.cpp": text}
        self.assertEqual(
            [
                "src/daso/comm/a.h: torch/torch.h is too slow to compile for a header",
                "src/daso/nets/a.h: torch/torch.h is too slow to compile for a header",
            ],
            self.problems_of(files),
        )

    def test_modules_reach_only_sources(self):
        def including(name: str) -> str:
            return LICENCE + f"\n#include <{name}>\n"

        files = {
            "src/daso/nets/net.h": including("torch/nn/module.h"),
            "src/daso/nets/large_net.h": including("daso/nets/net.h"),
            "src/daso/run/loop.h": including("daso/nets/large_net.h"),
            "src/daso/run/loop.cpp": including("daso/nets/large_net.h"),
            "src/cli/train.h": including("daso/run/loop.h"),
        }
        self.assertEqual(
            [
                "src/cli/train.h: daso/run/loop.h is too slow to compile for a header",
                "src/daso/run/loop.h: daso/nets/large_net.h is too slow to compile for a header",
            ],
            self.problems_of(files),
        )

    def test_folder_that_is_no_layer(self):
        found = self.problems_of({"src/daso/util/a.h": LICENCE + "\n", "src/daso/b.h": LICENCE + "\n"})
        self.assertEqual(2, len(found))
        self.assertIn("src/daso/b.h: not in a layer", found[0])
        self.assertIn("src/daso/util/a.h: not in a layer", found[1])

    def test_missing_licence_line(self):
        self.assertEqual(
            [f"bench/a.cpp: the first line must be '{LICENCE}'"],
            self.problems_of({"bench/a.cpp": "#include <vector>\n" + LICENCE + "\n"}),
        )

    def test_test_that_is_not_built(self):
        files = {f"tests/comm/{name}_test.cpp": LICENCE + "\n" for name in "abcd"}
        files["tests/CMakeLists.txt"] = "daso_test(comm/a_test.cpp)\n# comm/b_test.cpp\n"
        files["tests/comm/CMakeLists.txt"] = "daso_test(c_test.cpp RANKS 2)\n"
        self.assertEqual(
            [f"tests/comm/{name}_test.cpp: no CMakeLists.txt names it" for name in "bd"],
            self.problems_of(files),
        )


if __name__ == "__main__":
    unittest.main()
