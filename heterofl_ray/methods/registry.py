"""Methods by name."""

from __future__ import annotations

METHODS: dict[str, str] = {
    "heterofl": "clients train the leading channels they afford; overlapping parts are averaged",
}
