#!/usr/bin/env bash
# Shows ax at work: builds it, starts a Kubernetes cluster on this machine, installs ax and two workers, applies the
# tasks of config/samples and watches them until all have ended. `make demo` calls it.
#
#   demo.sh        exit code 0 only if every sample ended as its comment `# ends:` says
#   demo.sh down   takes down what it left running
#
# With KUBECONFIG naming another cluster, that one is used; its images are loaded by whoever owns it. The whole may take
# AX_DEMO_MINUTES (60); a second run builds nothing and takes about as long as the samples do.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

namespace=ax-demo
images=target/images
samples=config/samples
deadline=$((SECONDS + ${AX_DEMO_MINUTES:-60} * 60))

bold='' plain=''
if [[ -t 1 ]]; then
  bold=$'\e[1m' plain=$'\e[0m'
fi

main() {
  step "Build the programs (static, release; some minutes the first time) and the images" \
    "mend what the compiler names; it needs Rust $(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml) and a C linker" \
    make image
  step "Start the cluster (builds Kubernetes from source the first time: some minutes)" \
    "see what was said above; \"make cluster-down\" and again if it was half up" \
    e2e/cluster/cluster up --tier node --name demo
  find_cluster
  step "Load the images into the node" "\"make cluster-down\", then \"make demo\"" load_images
  step "Install ax (kubectl apply --server-side -k config/default)" \
    "the cluster refused a file of config/default: its words stand above" install_ax
  step "Wait for the operator" "kubectl --kubeconfig $kubeconfig -n ax-system get pods,events; then logs deploy/ax-operator" \
    rolled_out ax-system ax-operator "$images/ax-operator.tar"
  step "Start the workers (namespace $namespace)" "the cluster refused a file of $samples: its words stand above" start_workers
  step "Wait for the workers" "kubectl --kubeconfig $kubeconfig -n $namespace get pods,events" workers_rolled_out
  step "Apply the samples (kubectl apply -k $samples)" "the cluster refused a file of $samples: its words stand above" apply_samples
  step "Watch the tasks" "kubectl --kubeconfig $kubeconfig -n $namespace describe axt NAME; logs of -n ax-system deploy/ax-operator" watch_tasks
  look_at_the_dead
  by_hand
  judge
}

# step NAME WHAT-TO-DO COMMAND...
number=0
step() {
  local name=$1 what_to_do=$2 begin=$SECONDS code=0
  shift 2
  number=$((number + 1))
  printf '\n%s[%d/%d] %s%s\n' "$bold" "$number" 9 "$name" "$plain"
  if [[ $(type -t "$1") == function ]]; then
    "$@" || code=$?
  else
    timeout --foreground --kill-after=20 "$(remaining)" "$@" || code=$?
  fi
  if ((code != 0)); then
    ((code != 124)) || echo "demo: not done in time (AX_DEMO_MINUTES=${AX_DEMO_MINUTES:-60})" >&2
    echo "demo: \"$name\" failed. What to do: $what_to_do" >&2
    exit 1
  fi
  printf '      %d s\n' "$((SECONDS - begin))"
}

remaining() {
  local left=$((deadline - SECONDS))
  echo "$((left > 1 ? left : 1))"
}

# Sets kubeconfig and kubectl, and foreign if the cluster is not from here.
find_cluster() {
  local own
  own=$(env -u KUBECONFIG e2e/cluster/cluster kubeconfig --tier node --name demo 2>/dev/null || true)
  kubeconfig=$(e2e/cluster/cluster kubeconfig --tier node --name demo)
  foreign=
  if [[ $kubeconfig != "$own" ]]; then
    foreign=yes
    kubectl=$(command -v kubectl) && return
  fi
  kubectl=$(e2e/cluster/cluster bin --tier node --name demo)/kubectl
}

k() { "$kubectl" --kubeconfig "$kubeconfig" --request-timeout=30s "$@"; }

load_images() {
  if [[ -n $foreign ]]; then
    echo "      this cluster is yours, so that is for you to do, if you have not yet; for instance"
    echo "      kind load image-archive $images/ax-operator.tar $images/ax-worker.tar"
  else
    e2e/cluster/cluster load --name demo "$images/ax-operator.tar" "$images/ax-worker.tar"
  fi
}

install_ax() {
  k apply --server-side --force-conflicts -k config/default &&
    k wait --for=condition=Established --timeout=25s crd/axtasks.ax.dev crd/axtasktemplates.ax.dev
}

start_workers() {
  { k get namespace "$namespace" >/dev/null 2>&1 || k create namespace "$namespace"; } &&
    k -n "$namespace" apply -f "$samples/handlers.yaml" -f "$samples/worker.yaml" -f "$samples/slow-worker.yaml" \
      -f "$samples/template.yaml"
}

workers_rolled_out() {
  rolled_out "$namespace" order-worker "$images/ax-worker.tar" && rolled_out "$namespace" slow-worker "$images/ax-worker.tar"
}

# rolled_out NAMESPACE DEPLOYMENT IMAGE.tar: waits until its pods are ready, and run this image if it was loaded here.
rolled_out() {
  local limit=$((SECONDS + 180)) said='' now bad
  if [[ -z $foreign ]] && runs_another_image "$1" "$2" "$3"; then
    k -n "$1" rollout restart "deployment/$2" || return
  fi
  while :; do
    now=$(k -n "$1" rollout status "deployment/$2" --watch=false 2>&1) || true
    if [[ $now != "$said" ]]; then
      said=$now
      printf '      %s\n' "$now"
    fi
    [[ $now != *"successfully rolled out"* ]] || return 0
    bad=$(k -n "$1" get pods -l "app.kubernetes.io/name=$2" \
      -o jsonpath='{range .items[*]}{.status.containerStatuses[*].state.waiting.reason}{"\n"}{end}') || true
    case $bad in
      *ImagePull* | *ErrImage*)
        echo "demo: the cluster does not have the image of $2: load $3 (kind load image-archive, k3d image import, minikube image load), then again" >&2
        return 1
        ;;
      *CrashLoop*)
        echo "demo: $2 starts and ends. Its last words:" >&2
        k -n "$1" logs --tail=20 "deployment/$2" >&2 || true
        return 1
        ;;
    esac
    if ((SECONDS >= limit || SECONDS >= deadline)); then
      echo "demo: $2 was not ready in time. Its pods:" >&2
      k -n "$1" get pods -o wide >&2 || true
      k -n "$1" get events --sort-by=.lastTimestamp >&2 || true
      return 1
    fi
    sleep 1
  done
}

# Whether some running pod of the Deployment has another image than the archive: a second run after a change.
runs_another_image() {
  local config ids id
  config=$(tar --extract --to-stdout --file "$3" manifest.json | sed -n 's/.*"Config":"\([0-9a-f]*\)\.json".*/\1/p')
  ids=$(k -n "$1" get pods -l "app.kubernetes.io/name=$2" \
    -o jsonpath='{range .items[*]}{.status.containerStatuses[*].imageID}{"\n"}{end}')
  for id in $ids; do
    [[ $id == *"$config"* ]] || return 0
  done
  return 1
}

# How the samples should end, a line each: name, phase, then attempts=N and perhaps reason=R.
# A comment `# ends: ...` holds for the tasks below it in its file.
expected() {
  awk '
    function flush() {
      if (kind == "AxTask") {
        if (ends == "") { print FILENAME ": " name " has no comment \"# ends:\"" >"/dev/stderr"; bad = 1 }
        print name, ends
      }
      kind = name = ""
    }
    FNR == 1 && NR > 1 { flush(); ends = "" }
    FNR == 1 { ends = "" }
    /^---/ { flush() }
    /^# ends: / { ends = substr($0, 9) }
    /^kind: / { kind = $2 }
    /^metadata: *\{/ { name = $0; sub(/.*[{ ]name: */, "", name); sub(/[ ,}].*/, "", name) }
    /^  name: / && name == "" { name = $2 }
    END { flush(); exit bad }
  ' "$samples"/*.yaml
}

apply_samples() {
  local left
  expected=$(expected) || return
  # What an earlier run left has ended and would not run again. Without finalizers a deleted task is gone at once.
  left=$(k -n "$namespace" get axtasks -o name | sed 's|.*/||' | grep -xF -f <(cut -d' ' -f1 <<<"$expected")) || true
  # shellcheck disable=SC2086
  [[ -z $left ]] || k -n "$namespace" delete axtasks --ignore-not-found --wait=false $left || return
  k -n "$namespace" apply -k "$samples"
}

# The state of every task, a line each: name, phase, attempt, reason.
states() {
  k -n "$namespace" get axtasks \
    -o jsonpath='{range .items[*]}{.metadata.name} {.status.phase} {.status.attempt} {.status.reason}{"\n"}{end}'
}

# Whether every sample has ended.
all_final() {
  local now=$1 name
  while read -r name _; do
    grep -qE "^$name (Succeeded|Canceled|Dead|Unknown) " <<<"$now" || return 1
  done <<<"$expected"
}

# In a terminal the table is drawn anew; elsewhere, and where it does not fit, only rows that have changed are added.
watch_tasks() {
  local limit=$((SECONDS + 300)) table='' before='' now lines drawn=0
  while :; do
    now=$(states) || now=
    if table=$(k -n "$namespace" get axtasks 2>&1); then
      lines=$(wc -l <<<"$table")
      if [[ -t 1 ]] && ((lines + 2 < $(tput lines 2>/dev/null || echo 0))); then
        ((drawn == 0)) || printf '\e[%dA\e[J' "$drawn"
        cut -c "1-$(tput cols)" <<<"$table"
        drawn=$lines
      else
        changed_rows "$before" "$table"
        before=$table
      fi
    fi
    if [[ -n $now ]] && all_final "$now"; then
      return 0
    fi
    if ((SECONDS >= limit || SECONDS >= deadline)); then
      echo "demo: not every task has ended in time" >&2
      printf '%s\n' "$now" >&2
      return 1
    fi
    sleep 1
  done
}

# changed_rows BEFORE NOW: the rows of the second table that the first has not, without regard to age and spacing.
changed_rows() {
  awk '
    function row(  text) { text = substr($0, 1, age - 1); gsub(/ +/, " ", text); return text }
    FNR == 1 { age = index($0, "AGE"); if (!age) age = length($0) + 1 }
    NR == FNR { seen[row()]; next }
    !(row() in seen)
  ' <(printf '%s\n' "${1:-none}") <(printf '%s\n' "$2")
}

look_at_the_dead() {
  local dead
  dead=$(states | awk '$2 == "Dead" { print $1; exit }')
  if [[ -n $dead ]]; then
    printf '\n%sA dead letter keeps what happened: kubectl -n %s describe axt %s%s\n' "$bold" "$namespace" "$dead" "$plain"
    k -n "$namespace" describe axtask "$dead"
  fi
}

by_hand() {
  cat <<EOT

${bold}Go on by hand${plain}
  export KUBECONFIG=$kubeconfig
  alias kubectl=$kubectl
  kubectl -n $namespace get axt -o wide
  kubectl -n $namespace get axt remind-customer-7 -o yaml        # each attempt: pod, times, error, log
  kubectl -n $namespace delete axt close-order-20250101 && kubectl -n $namespace apply -f $samples/order-close.yaml
  kubectl -n $namespace patch axt close-order-20250101 --type=merge -p '{"spec":{"cancel":true}}'   # within its 6 s
  kubectl -n ax-system get lease ax-leader -o yaml               # who leads
  kubectl -n ax-system logs -l app.kubernetes.io/name=ax-operator -f
  kubectl explain axt.spec
  make demo-down
EOT
}

# Compares how every sample ended with what its comment says.
judge() {
  local now name phase rest got_phase got_attempt got_reason want bad=0
  now=$(states)
  printf '\n%sDid every sample end as its comment says?%s\n' "$bold" "$plain"
  while read -r name phase rest; do
    read -r _ got_phase got_attempt got_reason <<<"$(grep "^$name " <<<"$now")"
    want=ok
    [[ $phase == "$got_phase" ]] || want="WRONG: should be $phase $rest"
    for fact in $rest; do
      case $fact in
        attempts=*) [[ $fact == "attempts=$got_attempt" ]] || want="WRONG: should be $phase $rest" ;;
        reason=*) [[ $fact == "reason=$got_reason" ]] || want="WRONG: should be $phase $rest" ;;
        *) want="WRONG: its comment is not understood: $fact" ;;
      esac
    done
    [[ $want == ok ]] || bad=1
    printf '  %-24s %-10s attempts=%-3s %s\n' "$name" "$got_phase" "$got_attempt" "$want"
  done <<<"$expected"
  if ((bad)); then
    echo "demo: some samples ended otherwise. What to do: kubectl describe them as above; the operator's log says why" >&2
    exit 1
  fi
  printf '%sYes: all %d, in %d s.%s\n' "$bold" "$(wc -l <<<"$expected")" "$SECONDS" "$plain"
}

# Takes down the cluster that is from here; from one that is not, takes out the demo alone.
down() {
  if e2e/cluster/cluster status --tier node --name demo >/dev/null 2>&1; then
    find_cluster
    if [[ -n $foreign ]]; then
      "$kubectl" --kubeconfig "$kubeconfig" delete namespace "$namespace" --ignore-not-found --timeout=180s
      echo "demo: ax itself stays; to take it out, and with its CRDs every task: kubectl delete -k config/default"
      return
    fi
  fi
  e2e/cluster/cluster down --tier node --name demo
}

case ${1:-} in
  '') main ;;
  down) down ;;
  *) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
