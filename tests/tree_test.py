# SPDX-License-Identifier: Apache-2.0
"""Rules about the tree as a whole: layers, headers, names, sizes, licence lines, and tests that
nobody builds.

Run as: python3 tests/tree_test.py
"""
import collections
import pathlib
import re
import statistics
import tempfile
import unittest

# What a layer may include, besides itself; the order is that of the layers.
LAYERS = {
    "base": set(),
    "membership": {"base"},
    "kernels": {"base"},
    "data": {"base", "kernels"},
    "tensor": {"base", "kernels"},
    "nets": {"base", "kernels", "tensor"},
    "optim": {"base", "kernels", "tensor"},
    "comm": {"base", "kernels", "tensor"},
    "launch": {"base", "membership", "kernels", "tensor", "comm"},
    "policy": {"base", "kernels", "tensor", "optim"},
}
LAYERS["exchange"] = LAYERS["policy"] | {"policy", "comm", "membership"}
LAYERS["strategy"] = LAYERS["exchange"] | {"exchange"}
LAYERS["record"] = LAYERS["strategy"] | {"strategy"}
LAYERS["cuda"] = LAYERS["exchange"]  # the module for GPUs
LAYERS["run"] = LAYERS["record"] | {"record", "data", "nets", "launch"}
LAYERS["bench"] = LAYERS["run"] | {"run"}
LAYERS["verify"] = LAYERS["run"] | {"run"}
LAYERS["cli"] = LAYERS["bench"] | {"bench", "verify"}
LIBTORCH = ("torch/", "ATen/", "c10/")  # launch must not see these
PURE = ("base", "membership")  # know nothing of LibTorch
LICENCE = "// SPDX-License-Identifier: Apache-2.0"
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
FOLDERS = ("src", "tests", "bench", "examples")

# Types in an anonymous namespace that have the name of a public one. None is to be added.
HIDDEN_BEFORE = {
    "Call", "Candidate", "Group", "Message", "Part",
}  # fmt: skip
# Flags belong to the program, and to run/ and launch/, which read them. The lines in the layers
# below that spell one nevertheless, at most; these numbers only ever fall.
FLAGS_SPELLED = {"comm": 8, "data": 6, "optim": 1, "record": 5}
# `./daso build --cuda` is none of the program.
FLAG = re.compile(r'"[^"\n]*(?<![\w-])(?<!\./daso build )--[a-z][a-z-]+')
# What a strategy is like stands in its traits; nobody else knows strategies by their names.
STRATEGY = re.compile(r'strategy[\w.]*(?:\(\))?\s*[!=]=\s*"|[!=]=\s*"(?:node|sync|local|daso)"')

# A folder should not be a pile of crumbs, nor too large to look through.
SMALL = 25  # lines
MOST_SMALL = 45
LEAST_MEDIAN = 70  # lines
MOST_IN_A_FOLDER = 60


def problems(root: pathlib.Path) -> list[str]:
    found = []
    headers = {}
    texts = {}
    launch = {}
    for path in sorted(sources(root)):
        name = path.relative_to(root).as_posix()
        text = path.read_text()
        if not text.startswith(LICENCE + "\n"):
            found.append(f"{name}: the first line must be '{LICENCE}'")
        if name.startswith("src/"):
            texts[name] = text
            includes = INCLUDE.findall(text)
            found += layer_problems(name, includes)
            if name.endswith(".h"):
                headers[name] = includes
            elif layer_of(name) == "launch":
                launch[name] = includes
    found += repeated_types(texts) + spelled_flags(texts) + strategies_by_name(texts)
    found += throwing_files(texts)
    return found + slow_headers(headers) + torch_in_launch(headers, launch) + unbuilt_tests(root)


def sources(root: pathlib.Path) -> list[pathlib.Path]:
    paths = [path for folder in FOLDERS for path in (root / folder).rglob("*")]
    return [path for path in paths if path.name.endswith((".h", ".h.in", ".cpp", ".cu"))]


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
        elif layer in PURE and include.startswith(LIBTORCH):
            found.append(f"{name}: {layer} must not include {include}")
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


WITHOUT_MEANING = re.compile(  # comments, and what is in quotes
    r"""//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])'""", re.DOTALL
)
SCOPE = re.compile(
    r"""\bnamespace\s*(?P<namespace>[\w:]*)\s*\{
    |\b(?:enum\s+(?:class\s+|struct\s+)?|struct\s+|class\s+)(?:\[\[\w+\]\]\s*)?
     (?P<type>\w+)(?:\s+final)?\s*(?::(?!:)[^{};()]*)?\{
    |\busing\s+(?P<alias>\w+)\s*=|[{}]""",
    re.VERBOSE,
)


def types_in(text: str) -> list[tuple[str, str]]:
    """Namespace and name of each type that the text defines outside of others and of functions.

    What is in an anonymous namespace of daso is in "daso::".
    """
    found = []
    scopes = []  # names of namespaces; None for all else
    for match in SCOPE.finditer(WITHOUT_MEANING.sub('""', text)):
        name = match["type"] or match["alias"]
        if name and None not in scopes:
            found.append(("::".join(scopes), name))
        if match["namespace"] is not None:
            scopes.append(match["namespace"])
        elif match.group().endswith("{"):
            scopes.append(None)
        elif match.group() == "}" and scopes:
            scopes.pop()
    return found


def repeated_types(texts: dict[str, str]) -> list[str]:
    """Two public types of one name in one namespace break the program, and the linker is silent
    about it. One in an anonymous namespace that hides a public one only confuses its readers."""
    public = {}  # by qualified name: the file
    anonymous = []
    found = []
    for file, text in texts.items():
        for space, name in types_in(text):
            if space.endswith("::"):
                anonymous.append((file, space.removesuffix("::"), name))
            elif space.startswith("daso"):
                first = public.setdefault(f"{space}::{name}", file)
                if first != file:
                    found.append(f"{file}: {space}::{name} is in {first}, too")
    for file, space, name in anonymous:
        while space and name not in HIDDEN_BEFORE:
            if f"{space}::{name}" in public:
                found.append(f"{file}: {name} hides that of {public[f'{space}::{name}']}")
            space = space.rpartition("::")[0]
    return found


def spelled_flags(texts: dict[str, str]) -> list[str]:
    lines = {}  # by layer
    for file, text in texts.items():
        layer = layer_of(file)
        if layer not in LAYERS or "launch" in LAYERS[layer] or layer in ("launch", "run"):
            continue
        for number, line in enumerate(re.sub(r"//.*", "", text).splitlines(), start=1):
            if FLAG.search(line):
                lines.setdefault(layer, []).append(f"{file}:{number}")
    return [
        f"{layer}: {len(places)} lines spell a flag, {FLAGS_SPELLED.get(layer, 0)} at most: "
        + ", ".join(places)
        for layer, places in lines.items()
        if len(places) > FLAGS_SPELLED.get(layer, 0)
    ]


def strategies_by_name(texts: dict[str, str]) -> list[str]:
    found = []
    for file, text in texts.items():
        if "strategy" not in LAYERS.get(layer_of(file), ()):
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            if STRATEGY.search(line):
                found.append(f"{file}:{number}: compares the name of a strategy; ask traits_of()")
    return found


FILE_CALL = re.compile(
    r"\b(?:fs|std::filesystem)::(absolute|canonical|copy\w*|create_\w+|current_path|equivalent|exists"
    r"|file_size|hard_link_count|is_\w+|last_write_time|permissions|proximate|read_symlink|relative"
    r"|remove\w*|rename|resize_file|space|status|symlink_status|temp_directory_path"
    r"|weakly_canonical|(?:recursive_)?directory_iterator)\b([^;]*)"
)


def throwing_files(texts: dict[str, str]) -> list[str]:
    """Calls of std::filesystem that throw errors of its own instead of filling in a code; a loop
    over a folder does so at its second entry."""
    found = []
    for file, text in texts.items():
        for match in FILE_CALL.finditer(text):
            call = arguments_of(match[2])
            asks_status = re.fullmatch(r"exists|is_\w+", match[1]) and "status" in call
            fills_code = re.search(r",\s*(?:apart|error|failed|ignored|problem)$", call)
            line_begin = text.rfind("\n", 0, match.start()) + 1
            in_loop = re.search(r"for \([^;]*:\s*$", text[line_begin : match.start()])
            if (fills_code or asks_status or call == "problem") and not in_loop:
                continue
            number = text.count("\n", 0, match.start()) + 1
            found.append(f"{file}:{number}: {match[1]} may throw; ask base/paths.h")
    return found


def arguments_of(rest: str) -> str:
    """What is in the parentheses at, or after the name at, the beginning of a text."""
    depth = 0
    for at, letter in enumerate(rest):
        depth += (letter == "(") - (letter == ")")
        if letter == ")" and depth == 0:
            return rest[rest.index("(") + 1 : at]
    return ""


def size_problems(lines: dict[str, int]) -> list[str]:
    """Of the files of src by their names."""
    found = []
    small = sorted(name for name, count in lines.items() if count < SMALL)
    if len(small) > MOST_SMALL:
        found.append(
            f"{len(small)} files of fewer than {SMALL} lines, {MOST_SMALL} at most: "
            + ", ".join(small)
        )
    median = statistics.median(lines.values())
    if median < LEAST_MEDIAN:
        found.append(f"half of the files have {median:g} lines or fewer; {LEAST_MEDIAN} at least")
    folders = collections.Counter(name.rpartition("/")[0] for name in lines)
    return found + [
        f"{folder}: {count} files, {MOST_IN_A_FOLDER} at most"
        for folder, count in sorted(folders.items())
        if count > MOST_IN_A_FOLDER
    ]


def torch_in_launch(headers: dict[str, list[str]], launch: dict[str, list[str]]) -> list[str]:
    """Sources of the launcher that see LibTorch, by themselves or through headers."""
    seeing = {}  # by header or source: the include at fault
    seen = -1
    while len(seeing) > seen:
        seen = len(seeing)
        for name, includes in (headers | launch).items():
            for include in includes:
                if include.startswith(LIBTORCH) or "src/" + include in seeing:
                    seeing.setdefault(name, include)
    return [
        f"{name}: {include} brings LibTorch into the launcher"
        for name, include in sorted(seeing.items())
        if layer_of(name) == "launch"
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

    def test_files_are_whole_ideas(self):
        root = pathlib.Path(__file__).resolve().parent.parent
        found = size_problems(
            {
                path.relative_to(root).as_posix(): len(path.read_text().splitlines())
                for path in sources(root)
                if path.is_relative_to(root / "src")
            }
        )
        self.assertEqual([], found)

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

    def test_libtorch_in_the_launcher(self):
        files = {
            "src/daso/comm/world.h": LICENCE + "\n#include <ATen/ATen.h>\n",
            "src/daso/comm/place.h": LICENCE + "\n#include <string>\n",
            "src/daso/launch/job.cpp": LICENCE + '\n#include "daso/comm/world.h"\n',
            "src/daso/launch/plan.cpp": LICENCE + '\n#include "daso/comm/place.h"\n',
        }
        self.assertEqual(
            ["src/daso/launch/job.cpp: daso/comm/world.h brings LibTorch into the launcher"],
            self.problems_of(files),
        )

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

    def test_two_types_of_one_name(self):
        files = {
            "src/daso/comm/cut.h": LICENCE + "\nnamespace daso {\nstruct Cut { int a; };\n}\n",
            "src/daso/data/crop.h": LICENCE + "\nnamespace daso {\nclass Cut : A<int> {};\n}\n",
            "src/daso/run/x.cpp": LICENCE + "\nnamespace daso {\nnamespace {\nenum class Cut { kA };"
            "\n}\n}\n",
            "src/bench/y.cpp": LICENCE + "\nnamespace daso::bench {\nnamespace {\nusing Cut = int;"
            "\n}\n}\n",
        }
        self.assertEqual(
            [
                "src/daso/data/crop.h: daso::Cut is in src/daso/comm/cut.h, too",
                "src/bench/y.cpp: Cut hides that of src/daso/comm/cut.h",
                "src/daso/run/x.cpp: Cut hides that of src/daso/comm/cut.h",
            ],
            self.problems_of(files),
        )

    def test_names_that_meet_nowhere(self):
        one = """
namespace daso {
struct Cut;
struct A {
  struct Part { char brace = '{'; };
};
struct A::Body { int a = 1'000; };
void f() { struct Local { const char* text = "struct Cut {"; }; }
// struct Cut {
namespace mpi { struct Cut {}; }
namespace { struct Own {}; }
}
"""
        two = """
namespace daso {
struct Cut {};
struct Part {};
struct Local {};
struct B { A f(struct Cut* cut) { return {}; } };
namespace { struct Own {}; }
}
"""
        files = {"src/daso/comm/one.cpp": LICENCE + one, "src/daso/comm/two.cpp": LICENCE + two}
        self.assertEqual([], self.problems_of(files))

    def test_flag_below_the_program(self):
        text = LICENCE + '\n// --wire\nconst char* a = "--wire is " "none --";\n'
        found = self.problems_of({"src/daso/kernels/a.cpp": text, "src/cli/a.cpp": text})
        self.assertEqual(
            ["kernels: 1 lines spell a flag, 0 at most: src/daso/kernels/a.cpp:3"], found
        )

    def test_strategy_by_its_name(self):
        text = LICENCE + '\nbool a = options.strategy == "none";\nbool b = "none" == text;\n'
        text += 'bool c = name != "sync";\n'
        found = self.problems_of({"src/daso/run/a.cpp": text, "src/daso/strategy/a.cpp": text})
        self.assertEqual(
            [
                f"src/daso/run/a.cpp:{line}: compares the name of a strategy; ask traits_of()"
                for line in (2, 4)
            ],
            found,
        )

    def test_file_call_that_throws(self):
        text = LICENCE + """
bool a = fs::exists(path);
bool b = fs::exists(path, problem) && fs::is_directory(fs::status(path, problem));
for (const auto& one : std::filesystem::directory_iterator(path, error)) use(one);
for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) use(at);
fs::path c = fs::current_path(problem) / fs::path(name);
fs::remove(
    path);
"""
        self.assertEqual(
            [
                f"src/daso/run/a.cpp:{line}: {name} may throw; ask base/paths.h"
                for line, name in ((2, "exists"), (4, "directory_iterator"), (7, "remove"))
            ],
            self.problems_of({"src/daso/run/a.cpp": text}),
        )

    def test_folder_of_crumbs(self):
        self.assertEqual([], size_problems({f"src/a/{i}.h": 70 for i in range(60)}))
        found = size_problems({f"src/a/{i}.h": 24 + i // 46 for i in range(61)})
        self.assertEqual(3, len(found))
        self.assertIn("46 files of fewer than 25 lines, 45 at most: src/a/0.h,", found[0])
        self.assertIn("half of the files have 24 lines", found[1])
        self.assertEqual("src/a: 61 files, 60 at most", found[2])

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
