"""Rows: what an experiment leaves behind, and the one thing that reports are made from.

files.py writes and reads them, choice.py picks the settings that were best on the validation part,
summary.py says where each ranker ended, and markdown.py how that is printed.
"""
