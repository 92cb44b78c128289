"""Run a study over real sockets: the plan, the processes, and the parts gathered into one run folder."""
