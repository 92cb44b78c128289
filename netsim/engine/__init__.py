"""One run: build the network, run the agents' tasks, write the table of results, and report why a run cannot end."""
