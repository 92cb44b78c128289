"""Random inputs, programs and networks, each with a ``check_one(rng)`` that raises if a law does not hold for it."""
