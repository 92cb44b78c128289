"""Kernel regression by successive projections: the cost of each order of turns on a network."""
