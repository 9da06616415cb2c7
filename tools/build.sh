# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# Configures and builds a preset. Sourced by ./daso, which describes stage, say and refuse; called in
# the root, under the lock, after set-up.

presets() { sed -n 's/.*"configurePreset": "\([a-z]*\)".*/\1/p' "$root/CMakePresets.json"; }

verb_build() {
  local preset=${1:-release} known
  if (($# > 1)); then refuse "build takes one preset, got: $*"; fi
  known=$(presets | paste -sd ' ')
  [[ " $known " == *" $preset "* ]] || refuse "there is no preset '$preset'; presets: $known"
  prepare build "$preset"
}

# A file with LibTorch's headers takes up to 2 GB of memory to compile.
job_count() {
  if [[ -n ${DASO_JOBS:-} ]]; then
    [[ $DASO_JOBS =~ ^[1-9][0-9]*$ ]] ||
      refuse "DASO_JOBS is '$DASO_JOBS'; it must be a whole number of at least 1"
    echo "$DASO_JOBS"
    return
  fi
  awk -v cores="$(nproc)" '/^MemAvailable/ { fit = int($2 / 2e6) }
    END { print fit < 1 ? 1 : fit < cores ? fit : cores }' /proc/meminfo
}

# Ninja runs CMake again by itself when a CMake file changed; what it cannot see is a new set-up.
configure() {
  local preset=$1
  local ninja_file=build/$preset/build.ninja
  if [[ -e $ninja_file && ! build/setup -nt $ninja_file ]]; then return; fi
  stage "[build] configuring $preset" "configure-$preset" "$cmake" --preset "$preset" \
    "-DCMAKE_MAKE_PROGRAM:FILEPATH=$ninja" "-DDASO_TORCH_DIR:PATH=$torch_dir"
}

build() {
  local preset=$1 jobs plan
  jobs=$(job_count)
  configure "$preset"
  plan=$("$ninja" -C "build/$preset" -n 2>&1) || true  # a real error comes again, in the stage
  if [[ $plan == *"no work to do"* ]]; then return; fi
  stage "[build] $preset" "build-$preset" "$ninja" -C "build/$preset" -j "$jobs"
}
