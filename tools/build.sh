# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# Configures, builds and installs. Sourced by ./daso; what is not a verb is called in the root, under
# the lock, after set-up.

presets() { sed -n 's/.*"configurePreset": "\([a-z]*\)".*/\1/p' "$root/CMakePresets.json"; }

verb_build() {
  local preset='' cuda='' known argument
  known=$(presets | paste -sd ' ')
  for argument; do
    if [[ $argument == --cuda ]]; then
      cuda=ON
    elif [[ -n $preset ]]; then
      refuse "build takes one preset and --cuda, got: $*"
    elif [[ " $known " != *" $argument "* ]]; then
      refuse "there is no preset '$argument'; presets: $known"
    else
      preset=$argument
    fi
  done
  preset=${preset:-release}
  if [[ -n $cuda ]]; then check_cuda "$preset"; fi
  asked_cuda=$cuda prepare build "$preset"
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

# Ninja runs CMake again by itself when a CMake file changed; what it cannot see is a new set-up,
# preset or choice of GPUs.
configure() {
  local preset=$1 file new=''
  local folder=build/$preset
  forget_moved "$folder"
  choose_cuda
  for file in build/setup CMakePresets.json build/missing-packages build/cuda; do
    if [[ $file -nt $folder/build.ninja ]]; then new=yes; fi  # also where the latter is not there
  done
  if [[ -z $new ]]; then return; fi
  stage "[build] configuring $preset" "configure-$preset" "$cmake" --preset "$preset" \
    "-DCMAKE_MAKE_PROGRAM:FILEPATH=$ninja" "-DDASO_TORCH_DIR:PATH=$torch_dir" "${cuda_words[@]}"
}

# CMake does not build in a folder that was made under another name of this checkout.
forget_moved() {
  local cache=$1/CMakeCache.txt made
  if [[ ! -e $cache ]]; then return; fi
  made=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$cache")
  if [[ $made == "$root" ]]; then return; fi
  say "[build] this folder was $made when $1 was built: building anew"
  rm -rf "$1"
}

# --- GPUs ---

nvcc_is_here() {
  command -v nvcc >/dev/null ||
    [[ -x ${CUDA_HOME:-/none}/bin/nvcc || -x ${CUDA_PATH:-/none}/bin/nvcc || -x /usr/local/cuda/bin/nvcc ]]
}

# check_cuda PRESET: refuses what --cuda cannot do, before anything is set up.
check_cuda() {
  if [[ $1 == [at]san ]]; then
    refuse "--cuda goes with release and dev: sanitizers do not know the memory of GPUs"
  fi
  nvcc_is_here ||
    refuse "--cuda needs nvcc, which is neither on PATH nor in CUDA_HOME or /usr/local/cuda: install" \
      "the CUDA toolkit, or set CUDA_HOME to where it is"
}

# Sets cuda_words, what CMake is told of GPUs, and keeps it in build/cuda: what was chosen once, or
# a GPU that was here once, holds for later calls as well.
choose_cuda() {
  local cuda='' gpu='' architectures=''
  if [[ -e build/cuda ]]; then
    { read -r cuda; read -r gpu; read -r architectures; } <build/cuda
  fi
  cuda=${asked_cuda:-${cuda:-AUTO}}
  if compgen -G '/dev/nvidia[0-9]*' >/dev/null && nvcc_is_here; then gpu=yes; fi
  architectures=$(asked_architectures "$architectures")
  printf '%s\n' "$cuda" "${gpu:-no}" "$architectures" | keep build/cuda
  cuda_words=()
  if [[ $cuda == ON ]]; then cuda_words+=(-DDASO_CUDA=ON); fi
  if [[ $gpu == yes ]]; then cuda_words+=(-DDASO_GPU_SEEN=ON); fi
  if [[ -n $architectures ]]; then cuda_words+=("-DDASO_CUDA_ARCHITECTURES=$architectures"); fi
}

# asked_architectures BEFORE: as CMake writes them, 80;90
asked_architectures() {
  local asked=${DASO_CUDA_ARCHITECTURES:-$1} words word
  read -ra words <<<"${asked//[;,]/ }"
  for word in "${words[@]}"; do
    [[ $word =~ ^[1-9][0-9]+[af]?(-real|-virtual)?$ ]] ||
      refuse "DASO_CUDA_ARCHITECTURES is '$asked'; it must be numbers of architectures, such as 90 or 80,90"
    echo "$word"
  done | paste -sd ';'
}

# build PRESET [TARGETS...]: all targets where none is named.
build() {
  local preset=$1 jobs
  shift
  jobs=$(job_count)
  configure "$preset"
  NINJA_STATUS='[%f/%t] ' stage "[build] $preset" "build-$preset" \
    "$ninja" -C "build/$preset" -j "$jobs" "$@"
}

# What train, doctor and the others need: neither tests nor benchmarks nor examples.
build_program() { build release daso_cli; }

verb_install() {
  local folder='' bundle='' given="${*:-nothing}"
  while (($# > 0)); do
    case $1 in
      --prefix) folder=${2:-} && shift ;;
      --prefix=*) folder=${1#--prefix=} ;;
      --bundle) bundle=yes ;;
      *) folder='' && break ;;
    esac
    shift || break
  done
  if [[ -z $folder ]]; then refuse "install takes --prefix DIR and --bundle, got: $given"; fi
  folder=$(cd "$caller" && realpath -ms -- "$folder")
  prepare install_to "$folder" "$bundle"
  if [[ -n $bundle ]]; then
    say "daso: installed; try $folder/bin/daso doctor. The folder can be moved, also to other machines."
    if has_cuda; then
      say "It is for CPUs: CUDA's libraries, several gigabytes, are left out. Without --bundle GPUs are used."
    fi
    return
  fi
  say "daso: installed; try $folder/bin/daso doctor. It uses the PyTorch that it was built with:" \
    "$(sed -n 1p "$root/build/setup")"
}

install_to() {
  if ! mkdir -p -- "$1" 2>/dev/null || [[ ! -w $1 ]]; then
    refuse "--prefix $1: you may not write there"
  fi
  build_program
  stage "[install] $1" install "$cmake" --install build/release --prefix "$1"
  if [[ -n $2 ]]; then stage "[install] libraries" bundle bundle "$1"; fi
}

# --- The Python package ---

verb_wheel() {
  local cuda='' kind='for CPUs'
  if [[ $# == 1 && $1 == --cuda ]]; then
    cuda=ON
    check_cuda release
  elif (($# > 0)); then
    refuse "wheel takes --cuda or nothing, got: $*"
  fi
  asked_cuda=$cuda prepare make_wheel
  if has_cuda; then kind='for CPUs and GPUs'; fi
  say "daso: built $(cd "$root" && ls -t dist/daso-*.whl | head -n 1), $kind; to install it: pip install that file"
}

# From what is installed under build/wheel/prefix, with the libraries that a Python package cannot
# ask for.
make_wheel() {
  local prefix=$root/build/wheel/prefix python
  build_program
  python=$(torch_python)
  "$python" -c 'import nanobind, scikit_build_core' 2>/dev/null ||
    refuse "the wheel is built with nanobind and scikit-build-core, which $python does not have:" \
      "$python -m pip install nanobind scikit-build-core"
  rm -rf "$prefix"
  stage "[wheel] library and program" install-wheel \
    "$cmake" --install build/release --prefix "$prefix"
  stage "[wheel] libraries" bundle-wheel bundle "$prefix" "$torch_dir"
  CMAKE_GENERATOR=Ninja PATH=$(dirname "$cmake"):$(dirname "$ninja"):$PATH \
    stage "[wheel] package" wheel "$python" -m pip wheel "$root" --no-deps --no-build-isolation \
    --wheel-dir dist --config-settings "cmake.define.DASO_PREFIX=$prefix" \
    --config-settings "cmake.define.DASO_TORCH_DIR=$torch_dir"
}

# The Python that belongs to the build's PyTorch.
torch_python() { sed -n 's/^DASO_PYTHON_FOUND:INTERNAL=//p' build/release/CMakeCache.txt; }

# True where the CUDA module is part of the program, and not only compiled to be tested.
has_cuda() {
  local cuda gpu
  [[ -e $root/build/release/lib/daso/libdaso_cuda.so ]] || return
  { read -r cuda; read -r gpu; } <"$root/build/cuda"
  [[ $cuda == ON || $gpu == yes ]]
}

# bundle PREFIX [BUT_OF]: copies the libraries that the program needs, LibTorch above all, to where it looks
# for them first; not those of the C library, which belong to the system. The CUDA module needs
# gigabytes more, and parts of them are loaded by names that no file lists: it is left out. With
# BUT_OF the libraries of that folder are somebody else's to bring, and the compiler's are the
# system's.
bundle() {
  local lib file
  lib=$(dirname "$(find "$1" -name libdaso.so -print -quit)")
  rm -rf "$lib/bundled"
  if [[ -z ${2:-} ]]; then rm -f "$lib/daso/libdaso_cuda.so"; fi
  mkdir "$lib/bundled"
  ldd "$1/bin/daso" | awk '$3 ~ "^/" { print $3 }' | while read -r file; do
    if [[ -n ${2:-} ]]; then
      case $file in "$2"/* | */libstdc++.so.* | */libgcc_s.so.* | */libgomp*.so.*) continue ;; esac
    fi
    case ${file##*/} in
      libdaso.so | libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.* | libutil.so.*) ;;
      *) cp -Lv -- "$file" "$lib/bundled/" ;;
    esac
  done
}
