"""A contest: one preset for all data sets, chosen on validation data, against tuned baselines.

config.py reads the file and arena.py its data; entrants.py says who runs where, tasks.py makes jobs
of them, and choose.py picks settings from the rows of the search alone; outside.py makes jobs of
LambdaMART, and earlier.py takes over rivals that have run before. stages.py does the work,
ground.py keeps what is recorded and frozen, and contest.py goes from stage to stage. What came out
is said by `reports`, from rows.
"""
