"""Run one experiment: a config in, a folder of rows out.

config.py reads the file (toml.py explains what is wrong in it), load.py its data, parts.py says
what runs together, run.py goes through the parts here or on a cluster, simulate.py runs one of them
on what device.py found, and progress.py says how far it is; machine.py is what run.json says of
versions and machines. kept.py keeps what is finished, and jobs.py finishes work that comes in
several stages. lambdamart.py learns from labels instead, as a skyline from outside.
"""
