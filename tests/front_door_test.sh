#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Tests ./daso on a copy of it, with stand-ins for all that takes long or changes the machine: cmake,
# ninja, the compiler's search for headers, apt-get, and the user that we are. No build, no network.
#   front_door_test.sh SCRATCH_DIR PROGRAM
# shellcheck disable=SC2016  # the stand-ins expand their own variables
set -euo pipefail
source_root=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/..
scratch=$1
program=$2
failures=0

# --- the stage: a copy of the front door, and the stand-ins in bin/ ---

repo="$scratch/a repository"
bin=$scratch/bin
rm -rf "$scratch"
mkdir -p "$repo" "$bin" "$scratch/another folder" "$scratch/torch/lib" "$scratch/old/torch/lib"
cp -r "$source_root"/{daso,tools,requirements.txt,CMakeLists.txt,CMakePresets.json} "$repo"
mkdir -p "$repo/tests/python"
cp "$source_root/tests/python/ecosystem.txt" "$repo/tests/python"
# This machine's GPU and nvcc are none of the tests'.
sed -i "s|/dev/nvidia|$scratch/nvidia|; s|/usr/local/cuda|$scratch/cuda|; s|-v nvcc|-v test-nvcc|" "$repo"/tools/*.sh
touch "$scratch"/{torch,old/torch}/lib/libtorch_cpu.so
echo "__version__ = '2.11.0+cpu'" >"$scratch/torch/version.py"
echo "__version__ = '1.13.0'" >"$scratch/old/torch/version.py"

stand_in() { { echo '#!/usr/bin/env bash'; cat; } >"$bin/$1" && chmod +x "$bin/$1"; }

# Every call of these is noted.
stand_in cmake <<'END'
if [[ $1 == --version ]]; then echo "cmake version 3.31.0"; exit; fi
echo "cmake $*" >>"$CALLS"
if [[ $1 == --install ]]; then exit; fi
mkdir -p build/release && touch build/release/build.ninja
echo "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" >build/release/CMakeCache.txt
echo "DASO_PYTHON_FOUND:INTERNAL=$(command -v torch-python)" >>build/release/CMakeCache.txt
END
# PyTorch's Python, and that of the environments which it makes.
stand_in torch-python <<'END'
case "$*" in
  "-m venv --clear "*) rm -rf "$4" && mkdir -p "$4/bin" && cp "$0" "$4/bin/python3" ;;
  "-m pip install "*) echo "pip $*" >>"$CALLS"; exit "${PIP_RESULT:-0}" ;;
  -c*) echo build/ecosystem ;;
esac
END
# Fails if another one is at work in the same folder. What it builds prints what it was given.
stand_in ninja <<'END'
if [[ -e build/release/bin/daso ]]; then echo "ninja: no work to do."; exit; fi
echo "ninja $*" >>"$CALLS"
echo "[1/4] one"
mkdir build/release/at-work || exit 1
if [[ -e $BROKEN ]]; then seq 100; rmdir build/release/at-work; exit 1; fi
if [[ -p $GATE ]]; then read -r -t 20 <"$GATE"; fi
mkdir -p build/release/bin
printf '#!/usr/bin/env bash\necho "in $PWD, arguments: $*"\nls -l /proc/$$/fd/ 2>/dev/null | grep -c build/lock || true\n' \
  >build/release/bin/daso
chmod +x build/release/bin/daso
rmdir build/release/at-work
END
stand_in ctest <<<'echo "ctest $*"; exit "${CTEST_RESULT:-0}"'
# Knows every header but the one named in the file ABSENT.
stand_in c++ <<<'if [[ -s $ABSENT ]] && grep -qF -f "$ABSENT"; then exit 1; fi'
stand_in id <<<'echo "$WHO"'
stand_in unshare <<<'if [[ -n ${CAGED:-} ]]; then echo "unshare: not permitted" >&2; exit 1; fi'
stand_in apt-get <<<'echo "apt-get $*" >>"$CALLS"; if [[ $1 == install ]]; then : >"$ABSENT"; fi'
for name in mpicxx mpirun ccache ip iptables tc; do stand_in "$name" <<<':'; done

export CALLS=$scratch/calls ABSENT=$scratch/absent GATE=$scratch/gate BROKEN=$scratch/broken
export WHO=1000 DASO_TORCH=$scratch/torch PATH=$bin:$PATH
unset VIRTUAL_ENV CONDA_PREFIX DASO_VERBOSE DASO_JOBS DASO_CUDA_ARCHITECTURES CUDA_HOME CUDA_PATH

# --- what a test is made of ---

fresh() {  # as after a clone
  rm -rf "$repo/build" "$CALLS" "$GATE" "$BROKEN" "$scratch/nvidia3" "$scratch/cuda"
  : >"$ABSENT"
  : >"$CALLS"
}

# run COMMAND...: leaves output, errors and code.
run() {
  code=0
  "$@" >"$scratch/output" 2>"$scratch/errors" || code=$?
  output=$(cat "$scratch/output")
  errors=$(cat "$scratch/errors")
}

expect() {  # expect WHAT ACTUAL PATTERN
  # shellcheck disable=SC2053  # a pattern is meant
  if [[ $2 == $3 ]]; then return; fi
  echo "FAILED in ${FUNCNAME[1]}: $1 is '$2'; expected '$3'"
  failures=$((failures + 1))
}

await() {  # await PATTERN FILE: until a line of the file matches, 15 s at most
  local tries
  for tries in {1..750}; do
    if tr '\r' '\n' <"$2" | grep -q "$1"; then return; fi
    sleep 0.02
  done
  echo "FAILED in ${FUNCNAME[1]}: no '$1' in $2 after $tries looks"
  failures=$((failures + 1))
}

# --- the tests ---

first_call_builds_and_the_next_is_silent() {
  fresh
  run "$repo/daso" doctor --json
  expect code "$code" 0
  expect output "$output" "in *, arguments: doctor --json"$'\n'0
  expect errors "$errors" ""  # all of it took less than a second
  expect "what was built" "$(grep ^ninja "$CALLS")" "ninja -C build/release -j [0-9]* daso_cli"
  expect "cmake's arguments" "$(grep -c -- "-DDASO_TORCH_DIR:PATH=$scratch/torch" "$CALLS")" 1
  : >"$CALLS"
  local start=${EPOCHREALTIME/./}
  run "$repo/daso" doctor
  local milliseconds=$(((${EPOCHREALTIME/./} - start) / 1000))
  echo "a call with nothing to do takes $milliseconds ms"
  expect code "$code" 0
  expect errors "$errors" ""
  expect calls "$(cat "$CALLS")" ""
  # The aim is 300; a busy machine may be slower.
  expect "less than 1000 ms" "$((milliseconds < 1000))" 1
}

arguments_and_folder_reach_the_program_through_a_link() {
  fresh
  ln -sf "$repo/daso" "$scratch/another folder/link"
  cd "$scratch/another folder"
  run ./link run "two words" '*'
  expect code "$code" 0
  expect output "$output" "in $scratch/another folder, arguments: run two words [*]"$'\n'0
  DASO_TORCH=../torch run ./link
  expect code "$code" 0
  cd "$scratch"
}

help_comes_without_a_build() {
  fresh
  local word
  for word in '' -h --help help; do
    # shellcheck disable=SC2086  # the empty word is none
    run "$repo/daso" $word
    expect code "$code" 0
    expect output "$output" "The front door.*./daso ARGS...*DASO_VERBOSE=1*"
    expect errors "$errors" ""
  done
  expect calls "$(cat "$CALLS")" ""
  run "$repo/daso" train --help
  expect code "$code" 0
  expect output "$output" "The front door.*./daso ARGS...*"
  expect errors "$errors" "*once it is built*docs/settings.md*"
  run "$repo/daso" --version
  expect output "$output" "daso [0-9]*.[0-9]*.[0-9]*, not built yet"
  run "$repo/daso" trian
  expect code "$code" 2
  expect errors "$errors" "daso: there is no command 'trian'; commands: bench *train*"
  expect calls "$(cat "$CALLS")" ""
  expect build "$(ls -d "$repo/build" 2>/dev/null)" ""
  run "$repo/daso" build
  run "$repo/daso" help
  expect "output of the program" "$output" "in *, arguments: --help"$'\n'0
}

# The list in ./daso is the program's own.
all_commands_of_the_program_are_known() {
  local listed
  listed=$("$program" --help | sed -n '/^Subcommands:/,$s/^  \([a-z]\{2,\}\) .*/\1/p' | sort | paste -sd ' ')
  expect "commands in ./daso" "$(sed -n "s/^commands=' \(.*\) '$/\1/p" "$source_root/daso")" "$listed"
}

a_long_build_tells_how_far_it_is() {
  fresh
  mkfifo "$GATE"
  : >"$scratch/plain"
  "$repo/daso" top >/dev/null 2>"$scratch/plain" &
  local one=$!
  exec 8<>"$GATE"
  await '^\[build\] release: 1 of 4, about 0:[0-9]* left$' "$scratch/plain"
  echo go >&8
  wait "$one"
  expect "the first line" "$(head -n 1 "$scratch/plain")" "[[]build] release"
  expect "the last line" "$(tail -n 1 "$scratch/plain")" "[[]build] release: done in 0:*"
  rm -rf "$repo/build"
  : >"$scratch/terminal"
  script -qefc "'$repo/daso' top" /dev/null </dev/null >"$scratch/terminal" 2>&1 &
  one=$!
  await '^\[build\] release: 1 of 4' "$scratch/terminal"
  echo go >&8
  wait "$one"
  exec 8>&-
  expect "a line that changes" "$(cat "$scratch/terminal")" *$'\r'"[[]build] release: 1 of 4"*$'\e[K'*
}

interrupting_a_build_is_no_failure() {
  fresh
  mkfifo "$GATE"
  exec 8<>"$GATE"
  # As a terminal does: to all processes of the group, none of which ignores it.
  run python3 - "$repo/daso" "$CALLS" <<'END'
import os, signal, subprocess, sys, time
child = subprocess.Popen([sys.argv[1], "doctor"], start_new_session=True,
                         preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
limit = time.monotonic() + 20
while "ninja" not in open(sys.argv[2]).read() and time.monotonic() < limit:
    time.sleep(0.02)
os.killpg(child.pid, signal.SIGINT)
sys.exit(child.wait(timeout=20))
END
  exec 8>&-
  expect code "$code" 130
  expect errors "$errors" "*daso: interrupted; the next call goes on from here"
  expect "no log" "$(grep -c failed "$scratch/errors")" 0
  rm -rf "$GATE" "$repo/build/release/at-work"
  run "$repo/daso" doctor
  expect "code of the next call" "$code" 0
}

a_moved_checkout_is_built_anew() {
  fresh
  run "$repo/daso" doctor
  mv "$repo" "$scratch/moved"
  run "$scratch/moved/daso" doctor
  expect code "$code" 0
  expect configurations "$(grep -c "^cmake --preset" "$CALLS")" 2
  mv "$scratch/moved" "$repo"
}

a_path_that_cannot_be_built_in_is_refused() {
  fresh
  local name
  for name in 'a;b' 'a#b' 'a\b' 'a$b' 'a"b'; do
    mkdir -p "$scratch/$name"
    cp -r "$repo"/. "$scratch/$name"
    run "$scratch/$name/daso" doctor
    expect code "$code" 2
    expect errors "$errors" "daso: the path of this folder, *, holds a character that * take (?): *"
  done
  expect calls "$(cat "$CALLS")" ""
}

other_environments_change_nothing_of_a_build() {
  fresh
  run "$repo/daso" doctor
  : >"$CALLS"
  local elsewhere=$scratch/elsewhere
  mkdir -p "$elsewhere/bin" "$elsewhere/torch/lib"
  touch "$elsewhere/torch/lib/libtorch_cpu.so"
  echo "__version__ = '2.11.0'" >"$elsewhere/torch/version.py"
  printf '#!/bin/sh\necho %s/torch\n' "$elsewhere" >"$elsewhere/bin/python3"
  for name in cmake ninja; do cp "$bin/$name" "$elsewhere/bin"; done
  chmod +x "$elsewhere"/bin/*
  # An environment that is activated, a python3 that comes first, and no DASO_TORCH any more.
  VIRTUAL_ENV=$elsewhere PATH=$elsewhere/bin:$PATH run env -u DASO_TORCH "$repo/daso" doctor
  expect code "$code" 0
  expect errors "$errors" ""
  expect calls "$(cat "$CALLS")" ""
  expect "no set-up of .venv" "$(ls -d "$repo/.venv" 2>/dev/null)" ""
  DASO_TORCH=$elsewhere/torch run "$repo/daso" doctor
  expect "configured for what is asked for" "$(grep -c "DASO_TORCH_DIR:PATH=$elsewhere/torch" "$CALLS")" 1
}

install_builds_the_program_and_lays_it_down() {
  fresh
  cd "$scratch"
  run "$repo/daso" install --prefix "here it is"
  expect code "$code" 0
  expect errors "$errors" "*$scratch/here it is/bin/daso doctor*$scratch/torch"
  expect "what was built" "$(grep ^ninja "$CALLS")" "*daso_cli"
  expect "what was installed" "$(grep -- --install "$CALLS")" "cmake --install build/release --prefix $scratch/here it is"
  fresh
  mkdir -p "$repo/build/release/lib/daso"
  touch "$repo/build/release/lib/daso/libdaso_cuda.so"
  run "$repo/daso" install --prefix "here it is"
  expect "what is built beside a module that is only tested" "$(grep ^ninja "$CALLS")" "*daso_cli"
  run "$repo/daso" install --prefix "here it is" --bundle
  expect "what is said of it" "$(grep -c GPUs "$scratch/errors")" 0
  run "$repo/daso" install
  expect code "$code" 2
  expect errors "$errors" "daso: install takes --prefix DIR and --bundle, got: nothing"
}

ecosystem_has_an_environment_of_its_own() {
  fresh
  PIP_RESULT=1 run "$repo/daso" test --ecosystem
  expect "code without a network" "$code" 1
  expect "errors without a network" "$errors" "*pip could not install these packages*is there a network*"
  expect "output without a network" "$output" ""
  : >"$CALLS"
  run "$repo/daso" test --ecosystem --verbose
  expect code "$code" 0
  expect output "$output" "ctest *-L ^(process)\$ -R ^python_ecosystem\$ --verbose"
  expect "what is installed" "$(grep ^pip "$CALLS")" "*-r tests/python/ecosystem.txt"
  expect "PyTorch is that of the build" "$(cat "$repo"/build/ecosystem/*.pth)" "$scratch"
  : >"$CALLS"
  run "$repo/daso" test --ecosystem
  expect "installed once" "$(cat "$CALLS")" ""
  echo "one==2" >>"$repo/tests/python/ecosystem.txt"
  run "$repo/daso" test --ecosystem
  expect "installed for other packages" "$(grep -c ^pip "$CALLS")" 1
}

nvcc_comes() {
  mkdir -p "$scratch/cuda/bin"
  cp "$bin/ccache" "$scratch/cuda/bin/nvcc"
}

cuda_without_nvcc_is_refused_before_anything_is_made() {
  fresh
  run "$repo/daso" build --cuda
  expect code "$code" 2
  expect errors "$errors" "daso: --cuda needs nvcc, *set CUDA_HOME*"
  expect "lines" "$(wc -l <"$scratch/errors")" 1
  expect build "$(ls -d "$repo/build" 2>/dev/null)" ""
  nvcc_comes
  run "$repo/daso" build asan --cuda
  expect "code of asan" "$code" 2
  expect "errors of asan" "$errors" "daso: --cuda goes with release and dev*"
  CUDA_HOME=$scratch/cuda run "$repo/daso" build --cuda
  expect "code with CUDA_HOME" "$code" 0
}

what_cuda_was_chosen_stays() {
  fresh
  nvcc_comes
  run "$repo/daso" doctor
  expect "nothing is said of CUDA" "$(grep -c DASO_CUDA "$CALLS")" 0
  DASO_CUDA_ARCHITECTURES="80, 90" run "$repo/daso" build --cuda
  expect code "$code" 0
  expect configured "$(tail -n 1 "$CALLS")" "cmake *-DDASO_CUDA=ON -DDASO_CUDA_ARCHITECTURES=80;90"
  : >"$CALLS"
  run "$repo/daso" doctor
  DASO_CUDA_ARCHITECTURES=80,90 run "$repo/daso" doctor
  expect "calls of the next" "$(cat "$CALLS")" ""
  DASO_CUDA_ARCHITECTURES=100f run "$repo/daso" doctor
  expect "configured again" "$(cat "$CALLS")" "cmake *-DDASO_CUDA=ON -DDASO_CUDA_ARCHITECTURES=100f"
  DASO_CUDA_ARCHITECTURES=hopper run "$repo/daso" doctor
  expect "code of a name" "$code" 2
  expect "errors of a name" "$errors" "daso: DASO_CUDA_ARCHITECTURES is 'hopper'; *such as 90 or 80,90"
}

a_gpu_that_was_seen_once_counts() {
  fresh
  touch "$scratch/nvidia3"  # in a container it may be any
  run "$repo/daso" doctor
  expect "without nvcc" "$(grep -c DASO_GPU "$CALLS")" 0
  nvcc_comes
  run "$repo/daso" doctor
  expect configured "$(tail -n 1 "$CALLS")" "cmake *-DDASO_GPU_SEEN=ON"
  : >"$CALLS"
  run "$repo/daso" doctor
  rm "$scratch/nvidia3"
  run "$repo/daso" doctor
  expect "calls without it" "$(cat "$CALLS")" ""
}

two_calls_at_once_build_one_after_the_other() {
  fresh
  mkfifo "$GATE"
  "$repo/daso" top >"$scratch/one" 2>&1 &
  local one=$!
  exec 8<>"$GATE"
  await ^ninja "$CALLS"  # the first is inside its build
  : >"$scratch/two"
  "$repo/daso" doctor two >"$scratch/two" 2>&1 &
  local two=$!
  await waiting "$scratch/two"
  echo go >&8
  local codes=''
  wait "$one" && codes+=ok
  wait "$two" && codes+=ok
  exec 8>&-
  expect codes "$codes" okok
  expect "the second" "$(cat "$scratch/two")" "[[]setup] waiting for another*arguments: doctor two"$'\n'0
  expect "builds" "$(grep -c ^ninja "$CALLS")" 1
}

failed_build_shows_the_end_of_its_log() {
  fresh
  touch "$BROKEN"
  run "$repo/daso" doctor
  expect code "$code" 1
  expect output "$output" ""
  expect errors "$errors" "*[[]build] release failed; the end of $repo/build/log/build-release.log:"$'\n'"71"$'\n'*100
  rm "$BROKEN"
  run "$repo/daso" doctor
  expect code "$code" 0
}

wrong_torch_is_refused() {
  fresh
  DASO_TORCH=$scratch/nowhere run "$repo/daso" doctor
  expect code "$code" 2
  expect errors "$errors" "*PyTorch in $scratch/nowhere; found: none. DASO needs 2.11.0:*"
  DASO_TORCH=$scratch/old run "$repo/daso" doctor
  expect code "$code" 2
  expect errors "$errors" "*found: 1.13.0 in $scratch/old/torch. DASO needs 2.11.0:*"
  expect calls "$(cat "$CALLS")" ""
}

torch_is_found_inside_a_virtual_environment() {
  fresh
  mkdir -p "$scratch/environment/lib/python3.11/site-packages"
  ln -sfn "$scratch/torch" "$scratch/environment/lib/python3.11/site-packages/torch"
  DASO_TORCH=$scratch/environment run "$repo/daso" doctor
  expect code "$code" 0
  expect configured "$(grep -c "$scratch/environment/lib/python3.11/site-packages/torch" "$CALLS")" 1
}

old_python_is_refused_before_anything_is_made() {
  fresh
  mkdir -p "$scratch/old python"
  printf '#!/bin/sh\ncase $2 in *version_info*) echo 3.9 ;; *) exit 1 ;; esac\n' >"$scratch/old python/python3"
  chmod +x "$scratch/old python/python3"
  PATH="$scratch/old python:$PATH" run env -u DASO_TORCH "$repo/daso" doctor
  expect code "$code" 2
  expect errors "$errors" "daso: python3 on PATH is 3.9; *3.11 or newer*"
  expect ".venv" "$(ls -d "$repo/.venv" 2>/dev/null)" ""
  expect calls "$(cat "$CALLS")" ""
  PATH="$scratch/old python:$PATH" run "$repo/daso" doctor  # .venv is not needed
  expect "code with DASO_TORCH" "$code" 0
}

what_another_user_has_built_is_refused() {
  fresh
  local as=()
  if ((EUID == 0)); then as=(setpriv --reuid=65534 --regid=65534 --clear-groups); fi
  mkdir "$repo/build"
  chmod a-w "$repo/build"
  if "${as[@]}" test -r "$repo/daso"; then  # else the whole folder is closed to others
    run "${as[@]}" "$repo/daso" doctor
    expect code "$code" 2
    expect errors "$errors" "daso: $repo/build belongs to $(stat -c %U "$repo/build") and you may not write to it:*"
    expect calls "$(cat "$CALLS")" ""
  fi
  chmod u+w "$repo/build"
  fresh
  chmod a-w "$repo"
  if ((EUID == 0)) && "${as[@]}" test -r "$repo/daso"; then
    run "${as[@]}" "$repo/daso" doctor
    expect code "$code" 2
    expect errors "$errors" "daso: you may not write to $repo, *./daso install --prefix DIR"
  fi
  chmod u+w "$repo"
}

missing_packages_are_left_to_the_user() {
  fresh
  echo CLI/CLI.hpp >"$ABSENT"
  run "$repo/daso" doctor
  expect code "$code" 2
  expect errors "$errors" "*sudo apt-get install libcli11-dev"$'\n'"*cannot build without libcli11-dev"
  echo benchmark/benchmark.h >"$ABSENT"
  run "$repo/daso" doctor
  expect code "$code" 0
  expect errors "$errors" "*sudo apt-get install libbenchmark-dev"$'\n'"*going on without libbenchmark-dev*"
  expect record "$(cat "$repo/build/missing-packages")" "libbenchmark-dev micro-benchmarks"
  run "$repo/daso" doctor
  expect "errors of the next call" "$errors" ""
  # Installed by hand in the meantime: configured again.
  : >"$ABSENT"
  run "$repo/daso" doctor
  expect record "$(cat "$repo/build/missing-packages")" ""
  expect configurations "$(grep -c ^cmake "$CALLS")" 2
  expect "calls of apt-get" "$(grep -c ^apt-get "$CALLS")" 0
}

missing_packages_are_installed_by_root() {
  fresh
  echo benchmark/benchmark.h >"$ABSENT"
  WHO=0 run "$repo/daso" doctor
  expect code "$code" 0
  expect errors "$errors" ""
  expect installs "$(grep "^apt-get install" "$CALLS")" "apt-get install *--no-install-recommends* libbenchmark-dev"
}

test_chooses_labels() {
  fresh
  run "$repo/daso" test -R Pending
  expect code "$code" 0
  expect output "$output" "ctest --test-dir $repo/build/release *-L ^(unit|process|gpu)$ -R Pending"
  expect errors "$errors" "[[]test] without the tests on network namespaces: they take root"
  WHO=0 CTEST_RESULT=8 run "$repo/daso" test
  expect code "$code" 1
  expect output "$output" "*-L ^(unit|process|gpu|netns)$"
  expect errors "$errors" "daso: tests failed in: release"  # nothing is left out
  run "$repo/daso" test --launchers
  expect output "$output" "*-L ^(launchers)$"
  run "$repo/daso" test --all
  expect output "$output" "*-L ^(unit|process|gpu|slow|launchers)[$]"*
  WHO=0 CAGED=yes run "$repo/daso" test
  expect code "$code" 0
  expect output "$output" "*-L ^(unit|process|gpu)$"
  expect errors "$errors" "[[]test] without the tests on network namespaces: unshare: not permitted"
}

wrong_arguments_are_refused() {
  fresh
  run "$repo/daso" build relese
  expect code "$code" 2
  expect errors "$errors" "*no preset 'relese'; presets: release dev asan tsan"
  DASO_JOBS=many run "$repo/daso" doctor
  expect code "$code" 2
  expect errors "$errors" "*DASO_JOBS is 'many'*"
  run "$repo/daso" lint --everything
  expect code "$code" 2
}

for test in all_commands_of_the_program_are_known first_call_builds_and_the_next_is_silent \
  a_long_build_tells_how_far_it_is interrupting_a_build_is_no_failure \
  a_moved_checkout_is_built_anew a_path_that_cannot_be_built_in_is_refused \
  other_environments_change_nothing_of_a_build install_builds_the_program_and_lays_it_down \
  ecosystem_has_an_environment_of_its_own \
  arguments_and_folder_reach_the_program_through_a_link help_comes_without_a_build \
  cuda_without_nvcc_is_refused_before_anything_is_made what_cuda_was_chosen_stays \
  a_gpu_that_was_seen_once_counts two_calls_at_once_build_one_after_the_other \
  failed_build_shows_the_end_of_its_log wrong_torch_is_refused \
  torch_is_found_inside_a_virtual_environment old_python_is_refused_before_anything_is_made \
  what_another_user_has_built_is_refused missing_packages_are_left_to_the_user \
  missing_packages_are_installed_by_root test_chooses_labels wrong_arguments_are_refused; do
  $test
done
if ((failures > 0)); then exit 1; fi
echo "all is well"
