"""Measures of the agents' models: squared error, disagreement, confusion matrix, regret."""
