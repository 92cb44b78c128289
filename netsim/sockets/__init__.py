"""The way out of the simulation: the agents of one network in several processes, over real sockets."""
