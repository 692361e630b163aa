#!/usr/bin/env bash
# A Ray head on this machine, until Ctrl-C.   head.sh [OPTION OF ray start ...]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=cluster/token.sh
source "$here/../token.sh"
make_token
export PATH="$here/../../.venv/bin:$PATH" RAY_USAGE_STATS_ENABLED="${RAY_USAGE_STATS_ENABLED:-0}"
exec ray start --head --block --port=6379 --dashboard-host=127.0.0.1 "$@"
