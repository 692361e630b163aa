"""Whom the tracking server lets in: those with a name and a password, and nobody to its assistant.

MLflow's assistant runs commands on the server's machine for whoever asks from 127.0.0.1, and
behind a tunnel or a proxy that is everybody.
"""

from __future__ import annotations

from flask import Response, request
from mlflow.server.auth import authenticate_request_basic_auth
from werkzeug.datastructures import Authorization


def authorize() -> Authorization | Response:
    """Asked for every request, by MLflow (``authorization_function`` in auth.ini)."""
    if "/mlflow/assistant" in request.path:
        return Response("the assistant is switched off on this server\n", status=403)
    return authenticate_request_basic_auth()
