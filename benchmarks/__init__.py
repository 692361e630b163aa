"""The speed suite. Every figure is a ratio of two things timed in one run, repeated."""
