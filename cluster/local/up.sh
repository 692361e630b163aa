#!/usr/bin/env bash
# A head and some workers on this machine, each a node of its own, until Ctrl-C.   up.sh [WORKERS]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
workers=${1:-2}
cpus=$(($(nproc) / (workers + 1)))
size=(--num-cpus="$((cpus > 0 ? cpus : 1))" --object-store-memory=500000000)
folder=$(mktemp -d /tmp/nodes.XXXX) # one for each worker, as if on a disk of its own
nodes=()
set -m # each node is a process group
export RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S=0 # they end together: nothing to hand over
end() {
    kill "$@" 2>/dev/null || true
    for node in "$@"; do
        for ((tries = 0; tries < 100; tries++)); do
            kill -0 "$node" 2>/dev/null || break
            sleep 0.2
        done
        kill -KILL -- "-$node" 2>/dev/null || true # what has not ended after 20 seconds
        wait "$node" || true
    done
}
stop() {
    trap '' INT TERM
    end "${nodes[@]:1}" # before their head, which they would look for a minute long
    end "${nodes[@]:0:1}"
    rm -rf "$folder"
}
trap stop EXIT
trap 'exit 130' INT TERM

"$here/head.sh" "${size[@]}" &
nodes+=($!)
until (: </dev/tcp/127.0.0.1/6379) 2>/dev/null; do
    kill -0 "${nodes[0]}" 2>/dev/null || exit 1
    sleep 0.3
done
for ((i = 0; i < workers; i++)); do
    "$here/worker.sh" 127.0.0.1:6379 "${size[@]}" --temp-dir="$folder/$i" &
    nodes+=($!)
done
wait -n # one that ends ends them all
