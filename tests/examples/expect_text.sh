#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs a command, which must end with 0 and show a line that matches. ctest's own
# PASS_REGULAR_EXPRESSION takes the line alone for success, whatever the exit code is.
#   expect_text.sh PATTERN COMMAND...
set -uo pipefail
pattern=$1
shift
"$@" 2>&1 | tee -a /dev/stderr | grep -E -- "$pattern" >/dev/null
codes=("${PIPESTATUS[@]}")
if ((codes[0] != 0)); then
  echo "exit code ${codes[0]}" >&2
  exit 1
fi
if ((codes[2] != 0)); then
  echo "no line matches '$pattern'" >&2
  exit 1
fi
