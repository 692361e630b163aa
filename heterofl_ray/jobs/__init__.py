"""What the files in ``jobs/`` share: how a job is called, one run of a preset, a series of runs."""

from heterofl_ray.jobs.calling import Smoke, job_parser, listed
from heterofl_ray.jobs.series import Entry, run_series
from heterofl_ray.jobs.single import run_preset

__all__ = ["Entry", "Smoke", "job_parser", "listed", "run_preset", "run_series"]
