"""Benchmarks that compare netsim with other programs doing the same. Run by hand: python -m benchmarks.NAME."""
