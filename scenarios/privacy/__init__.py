"""Information revealed by each algorithm: bits of models, bits of raw data, and samples that other agents read."""
