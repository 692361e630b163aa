"""Numbers as the papers print them."""

from __future__ import annotations


def short_number(value: float) -> str:
    """1556874 as '1.6 M', the way the paper prints it."""
    for limit, unit in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if value >= limit:
            return f"{value / limit:.1f} {unit}"
    return f"{value:.0f}"
