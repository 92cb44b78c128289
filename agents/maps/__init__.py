"""Feature maps of inputs: random Fourier features, deep maps, and bandwidths fitted to the data."""
