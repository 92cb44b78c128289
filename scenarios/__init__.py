"""Studies that run from the command line: data, a network, agents, and what to measure. One file, one study."""
