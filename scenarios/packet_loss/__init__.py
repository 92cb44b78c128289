"""Effects of lost frames on each family of algorithms, and of each remedy, with its cost."""
