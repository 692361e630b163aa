#!/usr/bin/env bash
# MLflow's tracking server with users and passwords, until Ctrl-C.
#   serve.sh [OPTION OF mlflow server ...]
# Secrets come from files of mode 600 in MLFLOW_SECRETS (default ~/.heterofl-mlflow):
#   admin_password   made at the first start; user 'admin'
#   session_key      made at the first start
#   database_uri     yours: postgresql+psycopg://USER:PASSWORD@HOST:5432/mlflow; else SQLite beside it
# and artifacts go to MLFLOW_ARTIFACTS_DESTINATION: a folder, s3://…, gs://…
set -euo pipefail
umask 077
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
secrets=${MLFLOW_SECRETS:-$HOME/.heterofl-mlflow}
mkdir -p "$secrets"
chmod 700 "$secrets"

make_secret() {
    [[ -s $secrets/$1 ]] || od -An -N24 -tx1 /dev/urandom | tr -d ' \n' >"$secrets/$1"
}
make_secret admin_password
make_secret session_key
[[ -s $secrets/database_uri ]] || printf 'sqlite:///%s/mlflow.db' "$secrets" >"$secrets/database_uri"
chmod 600 "$secrets"/{admin_password,session_key,database_uri}

# By the environment, which only the owner of a process can read; never as words of a command.
MLFLOW_BACKEND_STORE_URI=$(<"$secrets/database_uri")
MLFLOW_AUTH_ADMIN_PASSWORD=$(<"$secrets/admin_password")
MLFLOW_FLASK_SERVER_SECRET_KEY=$(<"$secrets/session_key")
export MLFLOW_BACKEND_STORE_URI MLFLOW_AUTH_ADMIN_PASSWORD MLFLOW_FLASK_SERVER_SECRET_KEY
export MLFLOW_ARTIFACTS_DESTINATION=${MLFLOW_ARTIFACTS_DESTINATION:-$secrets/artifacts}
export MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false MLFLOW_DISABLE_TELEMETRY=true
export PATH="$here/../../.venv/bin:$PATH" PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}"

# Who may do what lies in the same database. A user sees nothing that was not shared with them.
export MLFLOW_AUTH_CONFIG_PATH=$secrets/auth.ini
{
    printf '[mlflow]\ndefault_permission = NO_PERMISSIONS\nadmin_username = admin\n'
    printf 'database_uri = %s\n' "${MLFLOW_BACKEND_STORE_URI//%/%%}" # configparser's escape
    printf 'authorization_function = gate:authorize\n' # beside this script
} >"$MLFLOW_AUTH_CONFIG_PATH"

exec mlflow server --app-name basic-auth --host 127.0.0.1 --port 5000 "$@"
