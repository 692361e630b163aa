"""The papers' tables and figures: what each consists of, what was printed, and what fits in."""
