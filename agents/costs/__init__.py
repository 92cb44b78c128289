"""The costs that an agent minimises, over all its samples or over one sample at a time, and the loss functions."""
