"""Experiments: one TOML file in, rows and figures out.

config.py reads the file, parts.py says what runs together, run.py goes through the parts here or on
a cluster, simulate.py runs one of them on what device.py found, progress.py says how far it is, and
results.py writes what came out.
"""
