"""Say what rows hold: everything here is made from a folder's rows, and nothing is run.

report.py draws and writes all that a folder allows; tables.py tests every ranker against the best
baseline, claims.py holds the paper's claims against the rows with evidence.py's means, effects.py
is for ablations, published.py for the numbers of others, and pages.py fills the docs. A contest is
judged by verdicts.py, with resampling.py's test queries drawn anew and beside.py for the skyline
and other conditions; contest.py writes it down with contest_tables.py and chosen.py.
"""
