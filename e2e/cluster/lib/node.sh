# shellcheck shell=bash
# The node: containerd, kubelet, kube-proxy, and the scheduler. One at a time on a machine. Sourced by cluster.
# shellcheck disable=SC2154

# Sockets, mounts and what must not outlive a boot. "owner" holds the state folder of the cluster that has it.
run=/run/ax-node
pause_image=docker.io/library/ax-pause:1

debian_packages=(containerd runc containernetworking-plugins iptables conntrack iproute2 openssl gcc libc6-dev)

node_missing() {
  local program
  for program in containerd ctr runc iptables ip6tables conntrack ip openssl gcc; do
    command -v "$program" >/dev/null || echo "$program"
  done
  [[ -n $(cni_bin_dir) ]] || echo "CNI plugins"
}

# Is there what a node needs? Debian's packages are installed if not.
node_requirements() {
  local missing
  [[ $EUID == 0 ]] || die "the node tier needs root (containers, a bridge, iptables); the control-plane tier does not"
  ((${#state} <= 60)) || die "$state is too long a path for the sockets inside: set AX_CLUSTER_DIR to a shorter one"
  missing=$(node_missing)
  [[ -n $missing ]] || return 0
  say "missing: ${missing//$'\n'/, }"
  command -v apt-get >/dev/null || die "install what Debian calls: ${debian_packages[*]}"
  step "Debian packages" install_packages
  missing=$(node_missing)
  [[ -z $missing ]] || die "still missing after apt-get: ${missing//$'\n'/, }"
}

install_packages() {
  {
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${debian_packages[@]}" ||
      { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${debian_packages[@]}"; }
  } >&2 </dev/null || die "apt-get could not install: ${debian_packages[*]}"
}

node_is_ours() { [[ $(cat "$run/owner" 2>/dev/null) == "$state" ]]; }

# Takes the machine's one place for a node, also from a cluster of which nothing is alive any more.
node_claim() {
  local owner
  take 8 "$run.lock" "another command works on this machine's node: waiting for it"
  owner=$(cat "$run/owner" 2>/dev/null || true)
  if [[ -n $owner && $owner != "$state" ]]; then
    if [[ -d $owner ]]; then
      die "the node of cluster ${owner##*/} ($owner) is on this machine, and there can be one: cluster down --tier node --name ${owner##*/}"
    fi
    say "a node was left by a cluster that is gone ($owner): removing it"
    node_remove
  elif [[ -z $owner ]] && ip link show "$bridge" >/dev/null 2>&1; then
    die "there is a bridge $bridge that is not from here: another Kubernetes or CNI network uses this machine"
  fi
  mkdir -p "$run"
  echo "$state" >"$run/owner"
  release 8 "$run.lock"
}

start_containerd() {
  local snapshotter=overlayfs
  # An overlay cannot lie on an overlay, which is what a container's own root is.
  [[ $(stat -f -c %T "$state") != overlayfs ]] || snapshotter=native
  cat >"$state/containerd.toml" <<EOF
version = 2
root = "$state/containerd"
state = "$run/containerd"
oom_score = 0

[grpc]
  address = "$run/containerd.sock"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "$pause_image"
  # Without it every sandbox fails on a host that may not lower an oom_score_adj.
  restrict_oom_score_adj = true
  # Puts the network namespaces below the state folder, where down finds all of them.
  netns_mounts_under_state_dir = true
  disable_apparmor = true

  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "$snapshotter"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"

      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
        Root = "$run/runc"

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$(cni_bin_dir)"
    conf_dir = "$state/cni"
EOF
  start containerd containerd --config "$state/containerd.toml"
}

images() { ctr --address "$run/containerd.sock" --namespace k8s.io images "$@"; }
containerd_answers() { images list -q >/dev/null 2>&1; }

load_images() {
  local tar
  [[ $tier == node ]] || die "cluster \"$name\" is a control plane alone: it runs no images"
  for tar; do
    [[ -f $tar ]] || die "no such file: $tar"
    images import "$tar" >&2
  done
}

start_node() {
  local pause
  pause=$("$here/../images/build.sh" --pause "$cache/images")
  step "containerd" wait_for 30 containerd containerd_answers
  images import "$pause" >>"$state/log/containerd.log" 2>&1 || failed containerd "does not take the pause image"
  start kube-scheduler "$bin/kube-scheduler" \
    --kubeconfig="$state/kube-scheduler.kubeconfig" --leader-elect=false --secure-port=0
  cat >"$state/kubelet.yaml" <<EOF
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $bridge_address
healthzPort: 0
readOnlyPort: 0
authentication:
  anonymous: { enabled: false }
  webhook: { enabled: true }
  x509: { clientCAFile: $state/certs/ca.crt }
authorization: { mode: Webhook }
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: []
oomScoreAdj: 0
containerRuntimeEndpoint: unix://$run/containerd.sock
podLogsDir: $state/log/pods
# Images that were loaded are never thrown away, and a disk that is nearly full evicts nobody.
imageGCHighThresholdPercent: 100
evictionHard:
  memory.available: 10Mi
  nodefs.available: 1%
  nodefs.inodesFree: 0%
  imagefs.available: 1%
EOF
  start kubelet "$bin/kubelet" \
    --config="$state/kubelet.yaml" --kubeconfig="$state/kubelet.kubeconfig" \
    --root-dir="$state/kubelet" --cert-dir="$state/kubelet/pki" \
    --hostname-override="$node_name" --node-ip="$bridge_address"
  start kube-proxy "$bin/kube-proxy" \
    --kubeconfig="$state/kube-proxy.kubeconfig" --hostname-override="$node_name" \
    --proxy-mode=iptables --cluster-cidr="$pod_range" --conntrack-max-per-core=0 --oom-score-adj=0 \
    --healthz-bind-address="$bridge_address" --metrics-bind-address="$bridge_address"
}

node_ready() {
  [[ $(without_proxy "$bin/kubectl" --kubeconfig "$state/kubeconfig" --request-timeout=5s get node "$node_name" --cache-dir "$state/kubectl" \
    -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}' 2>/dev/null) == True ]]
}

# What is left of our node, alive or dead. Nothing if the machine's node is another cluster's.
node_clean() {
  if node_is_ours; then
    take 8 "$run.lock" "another command works on this machine's node: waiting for it"
    node_remove
    release 8 "$run.lock"
  else
    stop containerd
  fi
}

# In the order in which nothing comes back: kubelet is gone; then containerd, so that it starts nothing; then its
# containers and shims, their mounts, the network.
node_remove() {
  stop containerd
  containers_kill
  shims_kill
  fixed_places_clean
  unmount_below "$run" "$(cat "$run/owner")"
  network_down
  find /sys/fs/cgroup -depth -type d -path '*/kubepods*' -exec rmdir {} + 2>/dev/null || true
  rm -rf --one-file-system "$run"
}

# Each container's first process; the kernel ends the others of its pid namespace with it. Its cgroup bears the
# container's id: so a pid that something else has by now is left alone.
containers_kill() {
  local file id pid
  for file in "$run"/containerd/io.containerd.runtime.v2.task/k8s.io/*/init.pid; do
    [[ -f $file ]] || continue
    id=$(basename "$(dirname "$file")")
    pid=$(<"$file")
    if grep -qs "$id" "/proc/$pid/cgroup"; then
      kill -9 "$pid" 2>/dev/null || true
    fi
  done
}

# What containerd, CNI and kubelet keep at places that cannot be chosen: ours by the container's id in the name, or by
# where a link leads. Folders go if that leaves them empty.
fixed_places_clean() {
  local bundle id
  for bundle in "$run"/containerd/io.containerd.runtime.v2.task/k8s.io/*; do
    [[ -d $bundle ]] || continue
    id=${bundle##*/}
    rm -f /var/lib/cni/results/*-"$id"-*
    # The shim's socket, as unix:///path or a plain path.
    [[ ! -f $bundle/address ]] || rm -f "/$(sed 's#^[a-z]*:*/*##' "$bundle/address")"
  done
  find /var/log/containers -lname "$(cat "$run/owner")/*" -delete 2>/dev/null || true
  rm -f /var/lib/kubelet/device-plugins/kubelet.sock
  rmdir -p --ignore-fail-on-non-empty /var/log/containers /var/lib/cni/results /var/lib/kubelet/device-plugins \
    /run/containerd/runc /run/containerd/runc/k8s.io /run/containerd/s 2>/dev/null || true
}

shims_kill() {
  local try pids
  for try in 1 2 3 4 5 6 7 8 9 10; do
    pids=$(processes containerd-shim-runc-v2 "-address $run/containerd.sock")
    [[ -n $pids ]] || return 0
    # shellcheck disable=SC2086
    kill -9 $pids 2>/dev/null || true
    sleep "0.0$try"
  done
  say "a container's shim does not end: $pids"
}

unmount_below() {
  local dir point
  for dir; do
    awk -v dir="$dir/" 'index($5, dir) == 1 {print $5}' /proc/self/mountinfo | tac | while read -r point; do
      umount "$(printf '%b' "$point")" 2>/dev/null || umount -l "$(printf '%b' "$point")" || true
    done
  done
}
