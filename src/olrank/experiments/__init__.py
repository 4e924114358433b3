"""Experiments: one TOML file in, rows and figures out.

running    one config: what runs together, here or on a cluster, and how far it is
reports    figures, tables, claims and pages, from rows alone
paper      the paper's Section 5 end to end, and what its theory says, measured
contest    one preset for all data sets, chosen on validation data, against tuned baselines
rows       what all of them leave behind and read: rows.parquet and what is said of it

Imports go one way: paper | contest > running | reports > rows.
"""
