"""Measures of the agents' models: errors, agreement, confusion of classes, regret."""
