"""Federated methods."""
