"""The costs that an agent minimises over its samples, in a batch or one at a time, and the losses of a prediction."""
