"""What is measured of models: errors, agreement, classes mistaken, regret."""
