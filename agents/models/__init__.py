"""Neural networks on the array API: the same functions for numpy, PyTorch and JAX."""
