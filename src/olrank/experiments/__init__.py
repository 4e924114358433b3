"""Experiments: one TOML file in, rows and figures out.

config.py reads the file, run.py goes through its parts, simulate.py runs one of them, progress.py
says how far it is, and results.py writes what came out.
"""
