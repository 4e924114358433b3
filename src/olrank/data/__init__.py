"""Judged data: read from files, checked against the public sets, normalised, split, or made."""
