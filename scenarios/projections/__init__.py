"""Kernel regression by successive projections: what each order of turns costs on a network."""
