"""Scoring functions: their initial weights, scores and tangent features."""
