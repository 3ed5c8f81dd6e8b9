#!/usr/bin/env bash
# Builds the programs of a Kubernetes cluster from the pinned Go modules of this folder.
#
#   build.sh [control-plane|node]    (default: node)
#
# Prints the folder of the programs on stdout, progress on stderr. The folder lies outside the tree and is keyed
# by what is built and how, so that a second run builds nothing. Any number of these may run at once.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${AX_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/ax}

say() { printf 'build: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

control_plane=(etcd kube-apiserver kube-controller-manager kubectl)
node=(kube-scheduler kubelet kube-proxy)

case ${1:-node} in
  control-plane) programs=("${control_plane[@]}") ;;
  node) programs=("${control_plane[@]}" "${node[@]}") ;;
  *) die "unknown set of programs \"$1\": control-plane or node" ;;
esac

version=$(sed -nE 's/^[[:space:]]*k8s.io.kubernetes (v[0-9.]+)( .*)?$/\1/p' "$here/go.mod")
[[ $version =~ ^v([0-9]+)\.([0-9]+)\. ]] || die "no version of k8s.io/kubernetes in $here/go.mod"
stamp=k8s.io/component-base/version
ldflags="-s -w -X $stamp.gitVersion=$version -X $stamp.gitMajor=${BASH_REMATCH[1]} -X $stamp.gitMinor=${BASH_REMATCH[2]}"
flags=(-trimpath -buildvcs=false -mod=readonly -ldflags "$ldflags")

package() {
  case $1 in
    etcd) echo go.etcd.io/etcd/server/v3 ;;
    *) echo "k8s.io/kubernetes/cmd/$1" ;;
  esac
}

key=$({ cat "$here/go.mod" "$here/go.sum"; echo "${flags[*]}"; uname -sm; } | sha256sum | cut -c1-12)
bin=$cache/k8s-$key/bin

missing() {
  local p
  for p in "${programs[@]}"; do
    [[ -x $bin/$p ]] || echo "$p"
  done
}

build() {
  local p=$1 begin=$SECONDS
  say "$p: building"
  (
    cd "$here"
    CGO_ENABLED=0 GOWORK=off nice -n 10 go build "${flags[@]}" -o "$bin/.$p.new" "$(package "$p")"
  ) >&2 || die "$p does not build; what Go said stands above (it needs Go $(sed -n 's/^go //p' "$here/go.mod") and a module proxy or its cache)"
  mv "$bin/.$p.new" "$bin/$p"
  say "$p: built in $((SECONDS - begin)) s"
}

if [[ -n $(missing) ]]; then
  command -v go >/dev/null || die "go is not installed: Go $(sed -n 's/^go //p' "$here/go.mod") or newer builds $(missing | tr '\n' ' ')"
  mkdir -p "$bin"
  # The lock goes with its last holder, so one that was killed leaves nothing behind; Go gets no copy of it.
  exec 9>"$cache/k8s-$key/lock"
  if ! flock -n 9; then
    say "another build is running: waiting for it"
    flock 9
  fi
  for p in $(missing); do
    build "$p" 9>&-
  done
fi

echo "$bin"
