"""Methods whose agents exchange models or gradients, and their base classes."""
