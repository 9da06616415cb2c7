# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# What the build needs from outside: Debian packages, PyTorch, CMake and Ninja. Sourced by ./daso.
# setup() gives
#   torch_dir     the folder of the PyTorch package
#   cmake, ninja  the programs
# and keeps them in build/setup, so that the next call has nothing to look for. What was found once
# is used until it is gone or DASO_TORCH names another: the environment of a single call, such as an
# active virtual environment, changes nothing of a build that is there.

# Needed or not, the package, the header or program that shows it is there, and what it is for.
# What counts is the header or program: it may come from elsewhere than Debian.
package_table() {
  cat <<'END'
required g++                c++                    compiling
required python3-venv       ensurepip              the Python packages
required libcli11-dev       CLI/CLI.hpp            the command line
required nlohmann-json3-dev nlohmann/json.hpp      JSON
required libtomlplusplus-dev toml++/toml.h         TOML files
required zlib1g-dev         zlib.h                 packed data files
required libjpeg-dev        jpeglib.h              JPEG images
required libpng-dev         png.h                  PNG images
required libxxhash-dev      xxhash.h               checksums of checkpoints
required libgtest-dev       gtest/gtest.h          the tests
required libgmock-dev       gmock/gmock.h          the tests
optional python3-dev        python-headers         the Python package
optional libopenmpi-dev     mpicxx                 backend mpi
optional openmpi-bin        mpirun                 backend mpi
optional libbenchmark-dev   benchmark/benchmark.h  micro-benchmarks
optional ccache             ccache                 quick rebuilds
optional iproute2           ip                     tests on several networks (label netns)
optional iptables           iptables               tests on several networks (label netns)
END
}

setup() {
  local key
  read_setup
  key=$(setup_key)
  if setup_is_current "$key"; then return; fi
  find_torch
  find_tools
  check_python
  install_packages
  if [[ -z $cmake ]]; then install_python_packages; fi
  printf '%s\n' "$torch_dir" "$cmake" "$ninja" | keep build/setup
  keep build/setup-key <<<"$key"
}

# What a set-up was made for. Costs a few milliseconds: this runs at every call.
setup_key() {
  { cat requirements.txt tools/setup.sh
    printf '%s\n' "$(id -u)" "$(asked_torch)"
  } | cksum
}

# True when the last set-up still holds.
setup_is_current() {
  [[ -e build/setup-key && $(<build/setup-key) == "$1" ]] &&
    [[ -e $torch_dir/lib/libtorch_cpu.so && -x $cmake && -x $ninja ]] &&
    # Somebody may have installed by hand what was missing.
    { [[ ! -s build/missing-packages ]] || missing optional | cmp -s - build/missing-packages; }
}

# The results of the last set-up; empty where there was none.
read_setup() {
  torch_dir='' cmake='' ninja=''
  if [[ ! -e $root/build/setup ]]; then return; fi
  { read -r torch_dir; read -r cmake; read -r ninja; } <"$root/build/setup"
}

# keep FILE: standard input becomes what the file holds. An equal file keeps its time, by which
# configure knows whether there is anything new.
keep() {
  cat >"$1.draft"
  if cmp -s "$1.draft" "$1"; then rm "$1.draft"; else mv "$1.draft" "$1"; fi
}

# --- Debian packages ---

# missing required|optional: one line for each missing package, its name and what it is for.
missing() {
  local need package sign purpose
  package_table | while read -r need package sign purpose; do
    if [[ $need == "$1" ]] && ! is_here "$sign"; then echo "$package $purpose"; fi
  done
}

is_here() {
  case $1 in
    ensurepip) [[ -n $cmake ]] || venv_works || python3 -c 'import ensurepip' 2>/dev/null ;;
    python-headers) python_headers_are_here ;;
    */* | *.h) c++ -E -x c++ - <<<$'#if !__has_include(<'"$1"$'>)\n#error\n#endif' &>/dev/null ;;
    *) PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null ;;  # sbin: not in every user's PATH
  esac
}

# Those of the Python that has PyTorch, or will have it.
python_headers_are_here() {
  local python=.venv/bin/python3
  if [[ ! -x $python ]]; then python=python3; fi
  "$python" -c 'import os, sysconfig
raise SystemExit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' &>/dev/null
}

install_packages() {
  local required optional
  mapfile -t required < <(missing required | cut -d ' ' -f 1)
  mapfile -t optional < <(missing optional | cut -d ' ' -f 1)
  local all=("${required[@]}" "${optional[@]}")
  if ((${#all[@]} == 0)); then
    :
  elif ! command -v apt-get >/dev/null; then
    say "[setup] needed and not found, by Debian's names: ${all[*]}"  # CMake tells what is fatal
  elif [[ $(id -u) == 0 ]]; then
    stage "[setup] Debian packages: ${all[*]}" packages apt_install "${all[@]}"
  else
    say "[setup] Debian packages are missing; to install them: sudo apt-get install ${all[*]}"
    if ((${#required[@]} > 0)); then refuse "cannot build without ${required[*]}"; fi
  fi
  missing optional | keep build/missing-packages  # read by daso doctor
  if [[ -s build/missing-packages ]]; then
    say "[setup] going on without $(cut -d ' ' -f 1 build/missing-packages | paste -sd ' ')"
  fi
}

# One by one, since apt installs nothing at all when it does not know one of the names. Optional
# ones may fail, for example without a network.
apt_install() {
  local package
  export DEBIAN_FRONTEND=noninteractive
  apt-get update || true
  for package; do
    apt-get install --yes --no-install-recommends -o DPkg::Lock::Timeout=300 "$package" || true
  done
  [[ -z $(missing required) ]]
}

# --- PyTorch, CMake, Ninja ---

asked_torch() {  # DASO_TORCH, as an absolute path
  if [[ -n ${DASO_TORCH:-} ]]; then (cd "$caller" && realpath -ms -- "$DASO_TORCH"); fi
}

torch_version_of() {  # the version of the PyTorch package in folder $1; nothing if there is none
  if [[ -e $1/lib/libtorch_cpu.so && -e $1/version.py ]]; then
    sed -n "s/^__version__ = '\(.*\)'/\1/p" "$1/version.py"
  fi
}

in_venv() { [[ $1 == "$root"/.venv/* ]]; }

torch_fits() { [[ $(torch_version_of "$1") =~ ^"$torch_version"(\+|$) ]]; }

# Sets torch_dir to the PyTorch asked for, used before or active; to nothing if .venv is to hold it.
find_torch() {
  local folder python before=$torch_dir
  torch_version=$(sed -n 's/^torch==//p' requirements.txt)
  command -v python3 >/dev/null || refuse "there is no python3 on PATH: install it"
  torch_dir=''
  if [[ -n ${DASO_TORCH:-} ]]; then
    find_asked_torch "$(asked_torch)"
    return
  fi
  if torch_fits "$before"; then
    if ! in_venv "$before"; then torch_dir=$before; fi
    return
  fi
  for python in "${VIRTUAL_ENV:-/none}/bin/python3" "${CONDA_PREFIX:-/none}/bin/python3" python3; do
    folder=$("$python" -c 'import importlib.util as util
print(util.find_spec("torch").submodule_search_locations[0])' 2>/dev/null) || continue
    if torch_fits "$folder" && ! in_venv "$folder"; then
      say "[setup] using the PyTorch that is active, in $folder"
      torch_dir=$folder
      return
    fi
  done
}

find_asked_torch() {
  local asked=$1 folder version found=''
  for folder in "$asked" "$asked"/torch "$asked"/lib*/python3*/*-packages/torch; do
    version=$(torch_version_of "$folder")
    if [[ -z $version ]]; then continue; fi
    if torch_fits "$folder"; then
      torch_dir=$folder
      return
    fi
    found+=" $version in $folder"
  done
  refuse "DASO_TORCH asks for the PyTorch in $asked; found:${found:- none}. DASO needs" \
    "$torch_version: name a torch folder, a site-packages folder or a virtual environment that" \
    "holds it, or unset DASO_TORCH and ./daso installs it."
}

# Where .venv is not needed for PyTorch: cmake and ninja used before, or on PATH; else nothing yet.
find_tools() {
  if [[ -n $torch_dir && -x $cmake && -x $ninja ]] && ! in_venv "$ninja"; then return; fi
  cmake=''
  ninja=''
  if [[ -n $torch_dir ]] && cmake_on_path_fits && command -v ninja >/dev/null; then
    cmake=$(command -v cmake)
    ninja=$(command -v ninja)
  fi
}

cmake_on_path_fits() {
  local version
  version=$(cmake --version 2>/dev/null | sed -n '1s/cmake version //p')
  [[ -n $version ]] && printf '3.25\n%s\n' "$version" | sort --check=quiet --version-sort
}

# Where .venv is to hold PyTorch: requirements.txt names versions that older Pythons cannot have, of
# which pip says no more than that there is none.
check_python() {
  local version
  if [[ -n $torch_dir ]] || venv_works; then return; fi
  version=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  printf '3.11\n%s\n' "$version" | sort --check=quiet --version-sort ||
    refuse "python3 on PATH is $version; PyTorch and what belongs to it need 3.11 or newer: put" \
      "such a python3 first on PATH, or name a PyTorch $torch_version with DASO_TORCH"
}

venv_works() { [[ -x .venv/bin/python3 ]] && .venv/bin/python3 -m pip --version &>/dev/null; }

install_python_packages() {
  local wanted=(-r requirements.txt) time='about 1 minute the first time'
  if [[ -n $torch_dir ]]; then
    mapfile -t wanted < <(grep -E '^(cmake|ninja)==' requirements.txt)
    time='a few seconds'
  fi
  stage "[setup] python packages ($time)" python fill_venv "${wanted[@]}"
  local packages
  packages=$(.venv/bin/python3 -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
  cmake=$packages/cmake/data/bin/cmake  # .venv/bin/cmake is a script that starts Python first
  ninja=$root/.venv/bin/ninja
  if [[ -z $torch_dir ]]; then torch_dir=$packages/torch; fi
}

fill_venv() {
  venv_works || python3 -m venv --clear .venv || return
  .venv/bin/python3 -m pip install --no-input --disable-pip-version-check "$@"
}
