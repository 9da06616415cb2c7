# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# ./daso test. Sourced by ./daso.

# run_ctest PRESET LABELS ARGS...: labels as a regular expression; a test has one label.
run_ctest() {
  local preset=$1 labels=$2
  shift 2
  "$(dirname "$cmake")/ctest" --test-dir "$root/build/$preset" --output-on-failure \
    --no-tests=error -j 2 -L "^($labels)\$" "$@"
}

# LibTorch is not instrumented: containers that it fills look overrun, its locks are not seen. A test
# forks the host of a store, which then has threads of its own. What else is forgiven stands in
# tests/sanitizers.
run_sanitized() {
  local folder=$root/tests/sanitizers
  export ASAN_OPTIONS="detect_container_overflow=0"
  export LSAN_OPTIONS="print_suppressions=0:suppressions='$folder/lsan.supp'"
  export UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1"
  export TSAN_OPTIONS="ignore_noninstrumented_modules=1:halt_on_error=1:die_after_fork=0"
  TSAN_OPTIONS+=":print_suppressions=0:suppressions='$folder/tsan.supp'"
  run_ctest "$@"
}

# Why tests on network namespaces cannot run here; nothing where they can. Root in a container often
# may not make namespaces.
why_no_namespaces() {
  local program error
  if [[ $(id -u) != 0 ]]; then
    echo "they take root"
    return
  fi
  for program in ip iptables tc; do
    if ! command -v "$program" >/dev/null; then
      echo "there is no $program on PATH"
      return
    fi
  done
  error=$(unshare --net --mount --pid --fork true 2>&1) || echo "${error:-unshare fails}"
}

# The packages of tests/python/ecosystem.txt in an environment of their own, which sees the PyTorch
# of the build through a .pth file: nothing of it is downloaded again. Kept until one of them changes.
prepare_ecosystem() {
  local key
  key=$(printf '%s\n' "$torch_dir" "$(torch_python)" | cat - tests/python/ecosystem.txt | cksum)
  if [[ -e build/ecosystem/key && $(<build/ecosystem/key) == "$key" ]]; then return; fi
  stage "[test] packages of tests/python/ecosystem.txt (about 2 minutes the first time)" ecosystem fill_ecosystem
  echo "$key" >build/ecosystem/key
}

fill_ecosystem() {
  local python=build/ecosystem/bin/python3 packages
  "$(torch_python)" -m venv --clear build/ecosystem || return
  packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  dirname "$torch_dir" >"$packages/torch_of_the_build.pth"
  grep '^torch==' requirements.txt >build/ecosystem/torch.txt
  if ! "$python" -m pip install --no-input --disable-pip-version-check --retries 2 \
    --constraint build/ecosystem/torch.txt -r tests/python/ecosystem.txt; then
    echo "pip could not install these packages. They come from PyPI, or from where PIP_INDEX_URL says:"
    echo "is there a network? A Python that has them is named by: cmake -DDASO_ECOSYSTEM_PYTHON=PATH build/release"
    return 1
  fi
}

verb_test() {
  local all='' ecosystem='' failed='' labels='unit|process|gpu' why
  case ${1:-} in
    --all)
      all=yes
      labels+='|slow|launchers'
      shift
      ;;
    --launchers)  # each of these says why it is skipped, where it cannot be run
      labels=launchers
      shift
      ;;
    --ecosystem)
      ecosystem=yes
      labels=process
      shift
      set -- -R '^python_ecosystem$' "$@"
      ;;
  esac
  if [[ $labels != launchers && -z $ecosystem ]]; then
    why=$(why_no_namespaces)
    if [[ -z $why ]]; then
      labels+='|netns'
    else
      say "[test] without the tests on network namespaces: $why"
    fi
  fi

  prepare build release
  if [[ -n $ecosystem ]]; then prepare prepare_ecosystem; fi
  read_setup
  run_ctest release "$labels" "$@" || failed+=' release'
  if [[ -n $all ]]; then
    local preset
    for preset in asan tsan; do
      prepare build "$preset"
      (run_sanitized "$preset" unit "$@") || failed+=" $preset"
    done
  fi
  if [[ -z $failed ]]; then return; fi
  say "daso: tests failed in:$failed"
  exit 1
}
