# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# ./daso lint. Sourced by ./daso.

verb_lint() {
  local all=''
  if [[ $# == 1 && $1 == --all ]]; then
    all=yes
  elif (($# > 0)); then
    refuse "lint takes --all or nothing, got: $*"
  fi
  prepare lint_tools
  prepare configure dev  # for the compile commands, file by file, and the generated headers
  cd "$root"
  local files sources
  mapfile -d '' -t files < <(lint_files "$all")
  if ((${#files[@]} == 0)); then
    say "[lint] no changed source; ./daso lint --all looks at all"
    return
  fi
  mapfile -d '' -t sources < <(printf '%s\0' "${files[@]}" | grep -z '\.cpp$')

  local failed='' unformatted=() file
  for file in "${files[@]}"; do
    clang-format-16 --dry-run -Werror "$file" 2>/dev/null || unformatted+=("$file")
  done
  if ((${#unformatted[@]} > 0)); then
    failed+=' clang-format'
    say "[lint] not formatted; to mend it: clang-format-16 -i ${unformatted[*]}"
  fi
  if ((${#sources[@]} > 0)); then
    mkdir -p build/lint
    python3 tools/lint_database.py build/dev/compile_commands.json >build/lint/compile_commands.json
    # Each source on its own, as many at once as compile at once.
    printf '%s\0' "${sources[@]}" |
      xargs -0 -n 1 -P "$(job_count)" tools/tidy.sh "$(find_clang_tidy)" || failed+=' clang-tidy'
  fi
  if [[ -z $failed ]]; then return; fi
  say "daso: lint found something:$failed"
  exit 1
}

# Changed against the last commit, or new; NUL after each.
lint_files() {
  local kinds=('*.h' '*.cpp')
  if [[ -n $1 ]] || ! git rev-parse --quiet --verify HEAD >/dev/null; then
    git ls-files -z --cached --others --exclude-standard -- "${kinds[@]}"
  else
    git diff -z --name-only --relative --diff-filter=d HEAD -- "${kinds[@]}"
    git ls-files -z --others --exclude-standard -- "${kinds[@]}"
  fi
}

# The newest of clang-tidy 16 and later. Formatting, however, differs from version to version: 16.
find_clang_tidy() {
  local version
  for version in {25..16}; do
    if command -v "clang-tidy-$version"; then return; fi
  done
  return 1
}

lint_tools() {
  local packages=()
  command -v clang-format-16 >/dev/null || packages+=(clang-format-16)
  find_clang_tidy >/dev/null || packages+=(clang-tidy-16)
  if ((${#packages[@]} == 0)); then return; fi
  if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
    refuse "lint needs ${packages[*]}; to install: sudo apt-get install ${packages[*]}"
  fi
  stage "[setup] Debian packages: ${packages[*]}" packages install_lint_tools "${packages[@]}"
}

install_lint_tools() {
  apt_install "$@" && command -v clang-format-16 && find_clang_tidy
}
