# shellcheck shell=bash
# Keys, certificates, tokens and kubeconfigs: one CA, elliptic keys (made in milliseconds), one token for each
# component, so that each has only the rights that Kubernetes gives it. Sourced by cluster.
# shellcheck disable=SC2154

node_name=ax-node

ec_key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1"; }

# signed NAME SUBJECT EXTENSIONS...: NAME.key and NAME.crt.
signed() {
  local cert=$1 subject=$2
  shift 2
  ec_key "$cert.key"
  openssl req -new -key "$cert.key" -subj "$subject" -out "$cert.csr"
  openssl x509 -req -in "$cert.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 3650 -out "$cert.crt" \
    -extfile <(printf '%s\n' 'basicConstraints=critical,CA:FALSE' 'keyUsage=critical,digitalSignature' "$@") 2>/dev/null
}

make_certs() {
  command -v openssl >/dev/null || die "openssl is not installed (Debian package: openssl)"
  mkdir -p "$state/certs"
  (
    cd "$state/certs" || exit
    umask 077
    ec_key ca.key
    openssl req -x509 -new -key ca.key -subj "/CN=ax-cluster-$name" -days 3650 -out ca.crt \
      -addext 'keyUsage=critical,keyCertSign,cRLSign,digitalSignature'
    signed apiserver /CN=kube-apiserver extendedKeyUsage=serverAuth \
      "subjectAltName=DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local,IP:127.0.0.1,IP:10.96.0.1,IP:$address"
    signed kubelet-client /O=system:masters/CN=kube-apiserver-kubelet-client extendedKeyUsage=clientAuth
    ec_key service-account.key
    openssl pkey -in service-account.key -pubout -out service-account.pub
  )
}

token() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }

# identity_of USER FILE [GROUP]: a token and the kubeconfig that holds it.
identity_of() {
  local user=$1 file=$2 group=${3:-} value
  value=$(token)
  echo "$value,$user,$user${group:+,$group}" >>"$state/tokens.csv"
  cat >"$file" <<EOF
apiVersion: v1
kind: Config
current-context: ax-$name
clusters:
  - name: ax-$name
    cluster:
      server: https://$address:$apiserver_port
      certificate-authority-data: $(base64 -w0 "$state/certs/ca.crt")
users:
  - name: $user
    user:
      token: $value
contexts:
  - name: ax-$name
    context:
      cluster: ax-$name
      user: $user
EOF
}

make_kubeconfigs() {
  (
    umask 077
    : >"$state/tokens.csv"
    identity_of admin "$state/kubeconfig" system:masters
    identity_of system:kube-controller-manager "$state/kube-controller-manager.kubeconfig"
    if [[ $tier == node ]]; then
      identity_of system:kube-scheduler "$state/kube-scheduler.kubeconfig"
      identity_of system:kube-proxy "$state/kube-proxy.kubeconfig"
      identity_of "system:node:$node_name" "$state/kubelet.kubeconfig" system:nodes
    fi
  )
}
