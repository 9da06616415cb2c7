# SPDX-License-Identifier: Apache-2.0
"""Prints a copy of a compile_commands.json that clang can read.

CMake tells g++ to use a precompiled header by force-including cmake_pch.hxx. Clang cannot read g++'s
precompiled headers, so it has to do without; each source then shows that it includes what it uses.
"""
import json
import pathlib
import shlex
import sys


def without_precompiled_header(arguments: list[str]) -> list[str]:
    kept = []
    for argument in arguments:
        if argument.endswith("/cmake_pch.hxx"):
            kept.pop()  # the -include before it
        elif argument != "-Winvalid-pch":
            kept.append(argument)
    return kept


entries = []
for entry in json.loads(pathlib.Path(sys.argv[1]).read_text()):
    if entry["file"].endswith("/cmake_pch.hxx.cxx"):
        continue
    arguments = without_precompiled_header(shlex.split(entry["command"]))
    entries.append(
        {"directory": entry["directory"], "file": entry["file"], "arguments": arguments}
    )
json.dump(entries, sys.stdout, indent=1)
