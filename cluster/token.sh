#!/usr/bin/env bash
# Sourced by the scripts beside it. Every Ray they start asks for a token; it lies in a file that
# only its owner can read, or in RAY_AUTH_TOKEN.
export RAY_AUTH_MODE=token
if [[ -z ${RAY_AUTH_TOKEN:-} ]]; then
    export RAY_AUTH_TOKEN_PATH=${RAY_AUTH_TOKEN_PATH:-$HOME/.ray/auth_token}
fi

# The head's: made at its first start.
make_token() {
    if [[ -n ${RAY_AUTH_TOKEN_PATH:-} && ! -s $RAY_AUTH_TOKEN_PATH ]]; then
        (
            umask 077
            mkdir -p "$(dirname "$RAY_AUTH_TOKEN_PATH")"
            od -An -N32 -tx1 /dev/urandom | tr -d ' \n' >"$RAY_AUTH_TOKEN_PATH"
        )
    fi
    check_token
}

# A worker's: the same as its head's, or nothing.
check_token() {
    [[ -n ${RAY_AUTH_TOKEN:-} ]] && return
    if [[ ! -s $RAY_AUTH_TOKEN_PATH ]]; then
        echo "no token in $RAY_AUTH_TOKEN_PATH: copy the head's file there, with mode 600" >&2
        exit 2
    fi
    chmod 600 "$RAY_AUTH_TOKEN_PATH"
}
