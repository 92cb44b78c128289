"""Fuzzers: ``check_one(rng)`` of each module draws an input, program or network, and raises if a law is violated."""
