"""Feature maps of inputs: random Fourier features, deep ones, and the bandwidths that suit the data."""
