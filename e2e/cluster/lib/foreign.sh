# shellcheck shell=bash
# A cluster that the user brought: KUBECONFIG names it. Sourced by cluster.
# shellcheck disable=SC2154

foreign() { [[ -n ${KUBECONFIG:-} && $(readlink -f "$KUBECONFIG" || true) != "$clusters"/* ]]; }

foreign_answers() {
  local kubectl
  kubectl=$(command -v kubectl) || kubectl=$("$here/build.sh" control-plane)/kubectl
  "$kubectl" --request-timeout=10s get --raw /readyz >/dev/null ||
    die "the cluster of KUBECONFIG=$KUBECONFIG does not answer; unset KUBECONFIG to have one started here"
}

foreign_command() {
  case $1 in
    up) foreign_answers; say "using the cluster of KUBECONFIG=$KUBECONFIG" ;;
    down) say "the cluster of KUBECONFIG=$KUBECONFIG is not from here: left alone" ;;
    status) foreign_answers; echo "the cluster of KUBECONFIG=$KUBECONFIG answers" ;;
    kubeconfig) echo "$KUBECONFIG" ;;
    bin) "$here/build.sh" "$tier" ;;
    load) die "load images into the cluster of KUBECONFIG with its own tool (kind load image-archive, k3d image import, minikube image load)" ;;
    logs | kill-apiserver | start-apiserver | restart-apiserver) die "$1 is for clusters that were started here; KUBECONFIG=$KUBECONFIG is not" ;;
    *) usage ;;
  esac
}
