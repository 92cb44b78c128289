"""What an agent minimises: losses of one prediction, and costs of its samples, at once or one at a time."""
