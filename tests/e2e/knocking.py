"""A job as a stranger would submit it: by hand, with a token or without."""

from __future__ import annotations

import json
import urllib.error
import urllib.request


def answer_to_a_job(url: str, token: str | None) -> int:
    """What a Ray's job server says to it, as HTTP's number: 200, or why not."""
    question = urllib.request.Request(
        f"{url}/api/jobs/",
        data=json.dumps({"entrypoint": "true"}).encode(),
        headers={"Content-Type": "application/json"}
        | ({"Authorization": f"Bearer {token}"} if token else {}),
    )
    try:
        with urllib.request.urlopen(question, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
