#!/usr/bin/env bash
# A Ray worker node, until Ctrl-C.   worker.sh HEAD:PORT [OPTION OF ray start ...]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=cluster/token.sh
source "$here/../token.sh"
check_token
export PATH="$here/../../.venv/bin:$PATH" RAY_USAGE_STATS_ENABLED="${RAY_USAGE_STATS_ENABLED:-0}"
address=${1:?the address of the head, such as 127.0.0.1:6379}
shift
# A port of its own for its agent: there may be other nodes on this machine.
exec ray start --block --address="$address" --dashboard-agent-listen-port=0 "$@"
