#!/usr/bin/env bash
# Makes the images as docker-archive files, which containerd, kind, k3d, minikube, docker and podman load.
#
#   build.sh OUTDIR           ax-operator.tar and ax-worker.tar, from the static binaries AX_OPERATOR_BIN and
#                             AX_WORKER_BIN (default: those of the release target that links statically)
#   build.sh --pause OUTDIR   the sandbox image of the test cluster's node; prints the file's path
#
# An image whose inputs are the same is not made again. Equal inputs give equal archives, byte by byte.
set -euo pipefail
umask 022

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=/dev/null
source "$here/archive.sh"

say() { printf 'images: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

release=$here/../../target/x86_64-unknown-linux-gnu/release
tag=${AX_IMAGE_TAG:-dev}

applets=(sh cat echo printf sleep date grep sed awk cut head tail tr sort uniq wc seq expr tee xargs find mkdir rm rmdir
  ls ln cp mv touch chmod stat mktemp wget nc env test true false id hostname ps kill timeout base64 sha256sum)

main() {
  local pause=
  if [[ ${1:-} == --pause ]]; then
    pause=yes
    shift
  fi
  (($# == 1)) || { sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
  out=$1
  mkdir -p "$out"
  out=$(cd "$out" && pwd)
  # One builder at a time in a folder; the lock goes with its holder.
  exec 9>"$out/.lock"
  flock 9
  stage=$(mktemp -d)
  trap 'rm -rf "$stage"' EXIT
  if [[ -n $pause ]]; then
    image pause ax-pause:1 "$here/pause/pause.c"
    echo "$out/ax-pause.tar"
  else
    operator=${AX_OPERATOR_BIN:-$release/ax-operator}
    worker=${AX_WORKER_BIN:-$release/ax-worker}
    static "$operator"
    static "$worker"
    busybox=$(find_busybox)
    image operator "ax-operator:$tag" "$operator"
    image worker "ax-worker:$tag" "$worker" "$busybox"
  fi
}

# image FOLDER NAME INPUT...: OUTDIR/NAME.tar without the tag, if an input has changed.
image() {
  local folder=$1 name=$2 file=$out/${2%%:*}.tar key begin=$SECONDS
  shift 2
  key=$(sha256sum "$@" "$here"/etc/* "$here/build.sh" "$here/archive.sh" "$here/$folder/Containerfile" | cut -d' ' -f1 | sha256sum | cut -c1-64)
  key="$name $key"
  if [[ -f $file && $(cat "$file.inputs" 2>/dev/null) == "$key" ]]; then
    return
  fi
  mkdir -p "$stage/$folder/rootfs"
  "stage_$folder" "$stage/$folder/rootfs"
  archive "$here/$folder/Containerfile" "$stage/$folder" "docker.io/library/$name" "$file"
  echo "$key" >"$file.inputs"
  say "$file: made in $((SECONDS - begin)) s"
}

# containerd 1.6 takes the group of a user from here alone, and else gives group 0, whatever USER says.
stage_etc() { install -D -m 644 -t "$1/etc" "$here"/etc/*; }

stage_operator() {
  stage_etc "$1"
  install -m 755 "$operator" "$1/ax-operator"
}

stage_worker() {
  local applet
  stage_etc "$1"
  install -m 755 "$worker" "$1/ax-worker"
  install -D -m 755 "$busybox" "$1/bin/busybox"
  for applet in "${applets[@]}"; do
    ln -s busybox "$1/bin/$applet"
  done
  mkdir -m 1777 "$1/tmp"
}

stage_pause() {
  "${CC:-gcc}" -static -Os -s -Wall -o "$1/pause" "$here/pause/pause.c" || die "no pause program: it needs a C compiler and a static libc (Debian packages: gcc libc6-dev)"
}

# A dynamically linked program finds no loader in an image that holds nothing else.
static() {
  [[ -f $1 ]] || die "$1 does not exist: build it first, or name another with AX_OPERATOR_BIN, AX_WORKER_BIN"
  if grep -aqE -m1 '/lib(64|32)?/ld-[a-z0-9.-]+\.so' <(head -c 4096 "$1"); then
    die "$1 is linked dynamically: build it with RUSTFLAGS=\"-C target-feature=+crt-static\" for x86_64-unknown-linux-gnu"
  fi
}

find_busybox() {
  local path
  path=${AX_BUSYBOX:-$(command -v busybox || true)}
  if [[ -z $path ]] && ((EUID == 0)) && command -v apt-get >/dev/null; then
    say "installing busybox-static"
    { DEBIAN_FRONTEND=noninteractive apt-get install -y busybox-static || { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y busybox-static; }; } >&2 </dev/null
    path=$(command -v busybox || true)
  fi
  [[ -n $path ]] || die "no busybox: install it as one static binary (Debian package: busybox-static), or name it with AX_BUSYBOX"
  static "$path"
  echo "$path"
}

main "$@"
