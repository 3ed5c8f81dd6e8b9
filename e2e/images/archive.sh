# shellcheck shell=bash
# A docker-archive from a Containerfile, with tar and sha256sum alone: of the language it knows what our images use
# (FROM scratch, COPY rootfs/ /, ENV, USER, ENTRYPOINT) and refuses the rest. Sourced by build.sh.

# archive CONTAINERFILE CONTEXT NAME FILE
archive() {
  local containerfile=$1 context=$2 name=$3 file=$4 work env='' user='' entrypoint=null layer config line value
  while read -r line; do
    value=${line#* }
    case $line in
      '' | '#'* | 'FROM scratch' | 'COPY rootfs/ /') ;;
      ENV\ *=*) env+="${env:+,}\"$value\"" ;;
      USER\ *) user=$value ;;
      ENTRYPOINT\ \[*\]) entrypoint=$value ;;
      *) die "$containerfile: not understood: $line" ;;
    esac
  done <"$containerfile"

  work=$context/archive
  mkdir -p "$work"
  same_tar "$context/rootfs" . >"$work/layer.tar"
  layer=$(sha256sum "$work/layer.tar" | cut -d' ' -f1)
  cat >"$work/config.json" <<EOF
{"architecture":"$(architecture)","os":"linux","created":"1970-01-01T00:00:00Z","config":{"User":"$user","Env":[$env],"Entrypoint":$entrypoint,"WorkingDir":"/"},"rootfs":{"type":"layers","diff_ids":["sha256:$layer"]},"history":[{"created":"1970-01-01T00:00:00Z","created_by":"COPY rootfs/ /"}]}
EOF
  config=$(sha256sum "$work/config.json" | cut -d' ' -f1).json
  mv "$work/config.json" "$work/$config"
  printf '[{"Config":"%s","RepoTags":["%s"],"Layers":["layer.tar"]}]\n' "$config" "$name" >"$work/manifest.json"
  same_tar "$work" manifest.json "$config" layer.tar >"$file.new"
  mv "$file.new" "$file"
}

# The same bytes for the same files, whoever packs them, and when.
same_tar() {
  local dir=$1
  shift
  tar --directory="$dir" --create --format=gnu --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner "$@"
}

architecture() {
  case $(uname -m) in
    x86_64) echo amd64 ;;
    aarch64) echo arm64 ;;
    *) uname -m ;;
  esac
}
