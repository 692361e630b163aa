"""Readers of the layouts people have on disk. Each gives arrays or words; none writes anything."""
