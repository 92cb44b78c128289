"""Distributed kernel regression by successive orthogonal projections, in four orders of turns."""
