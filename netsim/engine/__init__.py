"""One run: build the network, run the agents' tasks, sample rows, and diagnose a run that does not end."""
