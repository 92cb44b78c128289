"""Information revealed by each algorithm: model bits, raw-data bits, samples that others read."""
