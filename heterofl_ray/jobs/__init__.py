"""What the files in ``jobs/`` share: how a job is called, and the kinds of jobs there are."""

from heterofl_ray.jobs.calling import Smoke, job_parser, listed
from heterofl_ray.jobs.comparing import run_comparison
from heterofl_ray.jobs.series import Entry, run_series
from heterofl_ray.jobs.single import run_preset
from heterofl_ray.jobs.sweeping import run_sweep

__all__ = [
    "Entry",
    "Smoke",
    "job_parser",
    "listed",
    "run_comparison",
    "run_preset",
    "run_series",
    "run_sweep",
]
