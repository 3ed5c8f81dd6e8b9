# shellcheck shell=bash
# etcd, kube-apiserver, kube-controller-manager. Sourced by cluster.
# shellcheck disable=SC2154,SC2034

service_range=10.96.0.0/16

components() {
  printf '%s\n' etcd kube-apiserver kube-controller-manager
  [[ $tier != node ]] || printf '%s\n' kube-scheduler containerd kubelet kube-proxy
}

all_alive() {
  local component
  for component in $(components); do
    alive "$component" || return 1
  done
}

apiserver_ready() { [[ $(get /readyz) == ok ]]; }
controllers_live() { get /api/v1/namespaces/default/serviceaccounts/default >/dev/null; }

control_plane_healthy() {
  programs
  all_alive && apiserver_ready && controllers_live
}

# Below the range from which Linux gives out ports by itself, so that a port stays free while its server restarts.
free_port() {
  local port
  while :; do
    port=$((20000 + RANDOM % 10000))
    [[ $port != "${1:-}" ]] || continue
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
  done
  echo "$port"
}

# Where the servers listen: address, etcd_port, apiserver_port. Kept, so that a restart finds the same.
choose_address() {
  address=127.0.0.1
  [[ $tier != node ]] || address=$bridge_address
  etcd_port=$(free_port)
  apiserver_port=$(free_port "$etcd_port")
  printf '%s %s %s\n' "$address" "$etcd_port" "$apiserver_port" >"$state/address"
}

start_etcd() {
  local url=http://127.0.0.1:$etcd_port
  start etcd "$bin/etcd" \
    --name=ax --data-dir="$state/etcd" --unsafe-no-fsync --quota-backend-bytes=8589934592 \
    --listen-client-urls="$url" --advertise-client-urls="$url" \
    --listen-peer-urls=http://127.0.0.1:0 --initial-advertise-peer-urls=http://127.0.0.1:0 \
    --initial-cluster=ax=http://127.0.0.1:0 --log-level=warn
}

start_apiserver() {
  local certs=$state/certs extra=()
  read -r address etcd_port apiserver_port <"$state/address"
  if [[ $tier == node ]]; then
    extra=(--kubelet-client-certificate="$certs/kubelet-client.crt" --kubelet-client-key="$certs/kubelet-client.key"
      --kubelet-preferred-address-types=InternalIP)
  else
    # A loopback address may not stand in the endpoints of the Service "kubernetes", and nothing here uses them.
    extra=(--endpoint-reconciler-type=none)
  fi
  start kube-apiserver "$bin/kube-apiserver" \
    --etcd-servers="http://127.0.0.1:$etcd_port" \
    --bind-address="$address" --advertise-address="$address" --secure-port="$apiserver_port" \
    --cert-dir="$certs" --tls-cert-file="$certs/apiserver.crt" --tls-private-key-file="$certs/apiserver.key" \
    --client-ca-file="$certs/ca.crt" --token-auth-file="$state/tokens.csv" \
    --service-account-issuer=https://kubernetes.default.svc \
    --service-account-key-file="$certs/service-account.pub" \
    --service-account-signing-key-file="$certs/service-account.key" \
    --authorization-mode=Node,RBAC --allow-privileged \
    --service-cluster-ip-range="$service_range" \
    --max-requests-inflight=800 --max-mutating-requests-inflight=400 \
    "${extra[@]}"
}

start_controller_manager() {
  local extra=()
  if [[ $tier == control-plane ]]; then
    # A test binds Pods to nodes that do not exist; these two would delete them.
    extra=("--controllers=*,-pod-garbage-collector-controller,-node-lifecycle-controller")
  fi
  start kube-controller-manager "$bin/kube-controller-manager" \
    --kubeconfig="$state/kube-controller-manager.kubeconfig" \
    --service-account-private-key-file="$state/certs/service-account.key" \
    --root-ca-file="$state/certs/ca.crt" \
    --use-service-account-credentials --leader-elect=false --secure-port=0 \
    --kube-api-qps=300 --kube-api-burst=600 \
    ${extra[@]+"${extra[@]}"}
}

# If somebody else was faster with a port, it ends early and says so in brought.
start_control_plane() {
  local component
  start_etcd
  start_apiserver
  step "API server" wait_until_up
  for component in etcd kube-apiserver; do
    if ! alive "$component" && grep -q 'address already in use' "$state/log/$component.log"; then
      brought="port taken"
      return 0
    fi
    alive "$component" || failed "$component" "has ended"
  done
  start_controller_manager
}

wait_until_up() {
  local begin=$SECONDS
  until apiserver_ready; do
    alive etcd && alive kube-apiserver || return 0
    ((SECONDS - begin < 90)) || failed kube-apiserver "is not ready after 90 s"
    sleep 0.1
  done
}

kill_apiserver() {
  touch "$state/apiserver-stopped"
  stop kube-apiserver
}

start_apiserver_again() {
  if ! alive kube-apiserver; then
    start_apiserver
  fi
  wait_for 90 kube-apiserver apiserver_ready
  rm -f "$state/apiserver-stopped"
}
