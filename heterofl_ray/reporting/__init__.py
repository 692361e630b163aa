"""Reports of runs: figures, exact savings and coverage, one HTML page."""
