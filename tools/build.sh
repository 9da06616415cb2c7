# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# Configures, builds and installs. Sourced by ./daso; what is not a verb is called in the root, under
# the lock, after set-up.

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

# Ninja runs CMake again by itself when a CMake file changed; what it cannot see is a new set-up or
# preset.
configure() {
  local preset=$1
  local folder=build/$preset
  forget_moved "$folder"
  if [[ -e $folder/build.ninja && ! build/setup -nt $folder/build.ninja &&
    ! CMakePresets.json -nt $folder/build.ninja &&
    ! build/missing-packages -nt $folder/build.ninja ]]; then return; fi
  stage "[build] configuring $preset" "configure-$preset" "$cmake" --preset "$preset" \
    "-DCMAKE_MAKE_PROGRAM:FILEPATH=$ninja" "-DDASO_TORCH_DIR:PATH=$torch_dir"
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

# bundle PREFIX: copies the libraries that the program needs, LibTorch above all, to where it looks
# for them first; not those of the C library, which belong to the system.
bundle() {
  local lib file
  lib=$(dirname "$(find "$1" -name libdaso.so -print -quit)")
  rm -rf "$lib/bundled"
  mkdir "$lib/bundled"
  ldd "$1/bin/daso" | awk '$3 ~ "^/" { print $3 }' | while read -r file; do
    case ${file##*/} in
      libdaso.so | libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.* | libutil.so.*) ;;
      *) cp -Lv -- "$file" "$lib/bundled/" ;;
    esac
  done
}
