# shellcheck shell=bash
# Messages, waiting, locks, and the admin's requests. Sourced by cluster.
# shellcheck disable=SC2154,SC2034

cache=${AX_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/ax}

bin=

# Sets bin, the folder of the programs, and builds them if need be.
programs() { bin=${bin:-$("$here/build.sh" "$tier")}; }

say() { printf 'cluster: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# step WHAT COMMAND...: says how long it took if that is more than a second.
step() {
  local what=$1 begin=${EPOCHREALTIME/./} millis
  shift
  "$@"
  millis=$(((${EPOCHREALTIME/./} - begin) / 1000))
  if ((millis >= 1000)); then
    say "$what: $((millis / 1000)).$((millis % 1000 / 100)) s"
  fi
}

# wait_for SECONDS COMPONENT COMMAND...: until the command succeeds. Gives up when the component dies.
wait_for() {
  local limit=$1 component=$2 begin=$SECONDS
  shift 2
  until "$@"; do
    alive "$component" || failed "$component" "has ended"
    ((SECONDS - begin < limit)) || failed "$component" "is not ready after $limit s"
    sleep 0.1
  done
}

failed() {
  local component=$1
  say "$component $2. The end of its log:"
  tail -n 25 "$state/log/$component.log" >&2 || true
  say "the whole log: $state/log/$component.log; \"cluster up\" tries again from nothing, \"cluster down --name ${state##*/}\" removes it"
  exit 1
}

# One command at a time changes a cluster: this one, until it ends.
lock() {
  take 9 "$clusters/.$name.lock" "another command works on cluster \"$name\": waiting for it"
  trap 'release 9 "$clusters/.$name.lock"' EXIT
}

# take FD FILE WHAT-TO-SAY-WHILE-WAITING: the lock ends with its holder, however that ends. The file is removed by who
# releases it, so a lock counts only if the file is still the one that the name leads to.
take() {
  while :; do
    eval "exec $1>\"\$2\""
    if ! flock -n "$1"; then
      say "$3"
      flock "$1"
    fi
    [[ ! $2 -ef /dev/fd/$1 ]] || break
  done
}

release() {
  rm -f "$2"
  eval "exec $1>&-"
}

without_proxy() {
  env -u http_proxy -u https_proxy -u all_proxy -u HTTP_PROXY -u HTTPS_PROXY -u ALL_PROXY "$@"
}

# get PATH: the answer of our API server as the admin.
get() {
  without_proxy "$bin/kubectl" --kubeconfig "$state/kubeconfig" --request-timeout=5s get --raw "$1" 2>/dev/null
}
