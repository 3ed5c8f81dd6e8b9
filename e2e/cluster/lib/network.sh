# shellcheck shell=bash
# The node tier's network: a bridge, the CNI configuration, the kernel's switches; and how to remove all of it,
# the rules of kube-proxy and kubelet too. Sourced by cluster.
# shellcheck disable=SC2154

bridge=cni0
bridge_address=10.244.0.1
pod_range=10.244.0.0/24
cni_name=ax-cluster
switches=(net.ipv4.ip_forward net.bridge.bridge-nf-call-iptables)

cni_bin_dir() {
  local dir
  for dir in /usr/lib/cni /opt/cni/bin /usr/libexec/cni; do
    if [[ -x $dir/bridge && -x $dir/host-local && -x $dir/portmap ]]; then
      echo "$dir"
      return
    fi
  done
}

network_up() {
  local switch
  modprobe -q br_netfilter 2>/dev/null || true
  modprobe -q overlay 2>/dev/null || true
  ip link add "$bridge" type bridge
  ip address add "$bridge_address/24" dev "$bridge"
  ip link set "$bridge" up
  for switch in "${switches[@]}"; do
    [[ -e /proc/sys/${switch//./\/} ]] || die "the kernel has no $switch (module br_netfilter): a bridge network needs it"
    echo "$switch=$(cat "/proc/sys/${switch//./\/}")" >>"$run/switches"
    echo 1 >"/proc/sys/${switch//./\/}"
  done
  # A host whose policy drops what it forwards (Docker's does) would cut pods off.
  iptables -w 10 -I FORWARD -i "$bridge" -m comment --comment "$cni_name" -j ACCEPT
  iptables -w 10 -I FORWARD -o "$bridge" -m comment --comment "$cni_name" -j ACCEPT
  mkdir -p "$state/cni"
  cat >"$state/cni/10-$cni_name.conflist" <<EOF
{
  "cniVersion": "0.4.0",
  "name": "$cni_name",
  "plugins": [
    {
      "type": "bridge",
      "bridge": "$bridge",
      "isGateway": true,
      "hairpinMode": true,
      "ipam": {
        "type": "host-local",
        "dataDir": "$run/ipam",
        "ranges": [[{ "subnet": "$pod_range" }]],
        "routes": [{ "dst": "0.0.0.0/0" }]
      }
    },
    { "type": "portmap", "capabilities": { "portMappings": true } }
  ]
}
EOF
}

network_down() {
  local port switch value
  for port in /sys/class/net/"$bridge"/brif/*; do
    [[ ! -e $port ]] || ip link delete "${port##*/}" 2>/dev/null || true
  done
  ! ip link show "$bridge" >/dev/null 2>&1 || ip link delete "$bridge"
  rules_down iptables
  rules_down ip6tables
  rm -f /var/lib/cni/results/"$cni_name"-*
  if [[ -f $run/switches ]]; then
    while IFS='=' read -r switch value; do
      echo "$value" >"/proc/sys/${switch//./\/}"
    done <"$run/switches"
  fi
}

# Removes the chains KUBE-* and CNI-*, whatever jumps to them, and our own rules. In one restore for each table.
rules_down() {
  local tool=$1 table
  for table in filter nat mangle; do
    "$tool-save" -t "$table" 2>/dev/null | awk -v table="$table" -v ours="--comment \"?$cni_name\"? " '
      BEGIN { print "*" table }
      /^:(KUBE|CNI)-/ { chain = substr($1, 2); print ":" chain " - [0:0]"; chains[++n] = chain; next }
      /^-A (KUBE|CNI)-/ { next }
      /^-A / && (/-[jg] (KUBE|CNI)-/ || $0 ~ ours) { sub(/^-A/, "-D"); rules[++m] = $0 }
      END {
        for (i = 1; i <= m; i++) print rules[i]
        for (i = 1; i <= n; i++) print "-X " chains[i]
        print "COMMIT"
        if (!n && !m) exit 1
      }' >"$run/rules" || continue
    "$tool-restore" -w 10 --noflush <"$run/rules" || say "$tool: the rules of table $table were not all removed"
  done
}
