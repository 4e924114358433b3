"""Metrics: how good a list is, how good a run was while it learned, and how to compare runs."""
