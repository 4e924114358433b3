"""Reproduce the paper: its Section 5, and what its theory says where h is known.

reproduce.py is the command and protocol.py what it follows; found.py finds the data, stages.py
and side.py make jobs of the work, and estimate.py says how long that takes.
What is measured beside rankers: theory.py and gap.py (through known_h.py), separation.py, and
running/lambdamart.py.
"""
