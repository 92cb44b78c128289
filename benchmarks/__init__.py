"""Benchmarks that compare netsim with other programs which do the same; run one by python -m benchmarks.NAME."""
