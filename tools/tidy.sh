#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tidy.sh CLANG_TIDY SOURCE: what clang-tidy says of one source, in one piece and only if it objects.
if output=$("$1" --quiet -p build/lint "$2" 2>&1); then
  printf '[lint] %s\n' "$2"
else
  printf '[lint] %s\n%s\n' "$2" "$output"
  exit 1
fi
