# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# How ./daso tells what it does while set-up and build run. Sourced by ./daso. What a stage prints is
# kept in build/log/; the user sees how far it has come: on a terminal one line that changes, else a
# plain line every 10 s.

# All that the script itself says goes to standard error, so that --json stays JSON.
say() { printf '%s\n' "$*" >&2; }

refuse() {  # the user's to mend
  say "daso: $*"
  exit 2
}

# stage TITLE LOG COMMAND...: the command's output goes into build/log/LOG.log. Nothing is said of
# one that is done within a second.
stage() {
  local title=$1 log=build/log/$2.log start=$SECONDS
  shift 2
  if [[ ${DASO_VERBOSE:-0} != 0 ]]; then
    say "$title"
    if "$@" </dev/null >&2; then return; fi
    say "$title failed"
    exit 1
  fi
  : >"$log"
  watch_log "$title" "$log" "$BASHPID" 9>&- &
  watcher=$!
  # In the foreground, so that Ctrl-C reaches the command as the terminal sends it.
  if "$@" </dev/null >"$log" 2>&1; then
    end_watch
    if ((SECONDS - start >= 10)); then say "$title: done in $(minutes $((SECONDS - start)))"; fi
    return
  fi
  end_watch
  say "$title failed; the end of $root/$log:"
  tail -n 30 "$log" >&2
  exit 1
}

# For SIGINT: who pressed Ctrl-C knows why the stage ended, and needs no log.
interrupted() {
  end_watch
  say "daso: interrupted; the next call goes on from here"
  exit 130
}

end_watch() {
  if [[ -z ${watcher:-} ]]; then return; fi
  kill "$watcher" 2>/dev/null || true
  wait "$watcher" 2>/dev/null || true
  watcher=''
  if [[ -t 2 ]]; then printf '\r\e[K' >&2; fi
}

# watch_log TITLE LOG STAGE: tells how far the stage has come until it is killed, or the process
# STAGE has ended without having done that.
watch_log() {
  local title=$1 log=$2 stage=$3 start=$SECONDS told=0 seconds
  trap - INT
  while sleep 1 && [[ -d /proc/$stage ]]; do
    seconds=$((SECONDS - start))
    if [[ -t 2 ]]; then
      printf '\r%s\e[K' "$(cut -c "1-$(columns)" <<<"$title: $(how_far "$log" "$seconds")")" >&2
    elif ((told == 0)); then
      say "$title"
      told=1
    elif ((seconds >= 10 * told)); then
      say "$title: $(how_far "$log" "$seconds")"
      told=$((seconds / 10 + 1))
    fi
  done
}

columns() {
  local size
  size=$(stty size <&2 2>/dev/null) || size='0 0'
  echo $((${size#* } > 1 ? ${size#* } - 1 : 79))
}

# how_far LOG SECONDS: of Ninja's steps as many as are done, else the time and the log's last line.
how_far() {
  local log=$1 seconds=$2 last steps='^\[([0-9]+)/([0-9]+)\]'
  last=$(tail -c 2000 "$log" | tr '\r' '\n' | grep -av '^ *$' | tail -n 1)
  if [[ $(grep -aoE "$steps" "$log" | tail -n 1) =~ $steps ]]; then
    local finished=${BASH_REMATCH[1]} all=${BASH_REMATCH[2]} left=''
    if ((finished > 0 && seconds >= 5)); then
      left=", about $(minutes $((seconds * (all - finished) / finished))) left"
    fi
    echo "$finished of $all$left"
  else
    echo "$(minutes "$seconds")  ${last:0:100}"
  fi
}

minutes() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }
