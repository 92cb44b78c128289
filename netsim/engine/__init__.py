"""One run: it builds the network, runs the agents' tasks, samples rows, and says why a run does not end."""
