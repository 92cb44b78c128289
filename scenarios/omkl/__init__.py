"""Gossiped and quantized online multi-kernel learning, and its benchmarks."""
