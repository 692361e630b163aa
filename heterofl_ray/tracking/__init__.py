"""What is kept of a run: its folder, a row per round, and MLflow's record of it.

While a run trains, the driver only appends to a journal in the run's folder; a process of its own
sends that to MLflow. So a slow or vanished server costs the run nothing.
"""
