"""Sweeps: Ray Tune and Optuna around ordinary runs.

A sweep draws settings, leaves out what breaks a constraint, trains the rest as runs in its folder
and keeps what it found in Optuna's storage. Importing this imports nothing.
"""
