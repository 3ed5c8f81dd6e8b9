# shellcheck shell=bash
# Components as background processes. A pid file holds the pid and its start time since boot, and the boot, so that
# a pid that now belongs to something else is never taken for ours. Sourced by cluster.
# shellcheck disable=SC2154

# What identifies a living process; nothing if there is none, or only a zombie.
identity() {
  local stat
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
  stat=${stat##*) }
  # shellcheck disable=SC2086
  set -- "$1" $stat
  [[ $2 == [ZX] ]] || echo "$1 ${21} $(</proc/sys/kernel/random/boot_id)"
}

pid_of() {
  local pid=
  read -r pid _ 2>/dev/null <"$state/pid/$1" || true
  echo "$pid"
}

alive() {
  local pid
  pid=$(pid_of "$1")
  [[ -n $pid && $(identity "$pid") == "$(<"$state/pid/$1")" ]]
}

rss_kib() { awk '/^VmRSS:/ {print $2}' "/proc/$(pid_of "$1")/status"; }

# start COMPONENT COMMAND...: in a session of its own, without any of our open files. It records itself before it
# becomes the component, so that it is known from its first moment on, whatever happens to us.
start() {
  local component=$1
  shift
  (
    exec </dev/null >>"$state/log/$component.log" 2>&1
    for fd in /proc/self/fd/*; do
      fd=${fd##*/}
      ((fd <= 2)) || eval "exec $fd>&-"
    done
    cd "$state" || exit
    identity "$BASHPID" >"$state/pid/.$component"
    mv "$state/pid/.$component" "$state/pid/$component"
    exec setsid nohup env -u http_proxy -u https_proxy -u all_proxy -u HTTP_PROXY -u HTTPS_PROXY -u ALL_PROXY "$@"
  ) &
  local pid=$!
  until [[ $(pid_of "$component") == "$pid" ]] || [[ -z $(identity "$pid") ]]; do sleep 0.01; done
}

wait_gone() {
  local component=$1 tenths=$2
  while alive "$component"; do
    ((tenths-- > 0)) || return 1
    sleep 0.1
  done
}

# The living processes that run PROGRAM and have PART in an argument.
processes() {
  local program=$1 part=$2 dir argv
  for dir in /proc/[0-9]*; do
    mapfile -d '' -t argv 2>/dev/null <"$dir/cmdline" || continue
    if [[ ${argv[0]:-} == */"$program" || ${argv[0]:-} == "$program" ]] && [[ " ${argv[*]}" == *"$part"* ]]; then
      [[ -z $(identity "${dir##*/}") ]] || echo "${dir##*/}"
    fi
  done
}

# stop COMPONENT...: at once; nothing of what they hold is needed any more. Also one whose pid file was lost.
stop() {
  local component pid
  for component; do
    ! alive "$component" || kill -9 "$(pid_of "$component")" 2>/dev/null || true
  done
  for component; do
    wait_gone "$component" 100 || die "$component (pid $(pid_of "$component")) does not end after kill -9"
    for pid in $(processes "$component" "$state/"); do
      kill -9 "$pid" 2>/dev/null || true
    done
    rm -f "$state/pid/$component"
  done
}

# stop_gently COMPONENT SECONDS: asks first.
stop_gently() {
  if alive "$1"; then
    kill -TERM "$(pid_of "$1")" 2>/dev/null || true
    wait_gone "$1" $(($2 * 10)) || true
  fi
  stop "$1"
}
