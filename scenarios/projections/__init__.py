"""Kernel regression by successive projections: the cost on a network of each order in which agents take turns."""
