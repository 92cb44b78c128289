"""Compare the radio with ns-3's lr-wpan, and with an independent model of it: ``python -m benchmarks.ns3``."""
