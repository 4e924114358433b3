"""Figures: rows in, SVG out. One file a figure; style.py holds the look, panels.py the grid."""
