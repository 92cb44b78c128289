"""Convergecast: motes report to a sink over a tree."""
