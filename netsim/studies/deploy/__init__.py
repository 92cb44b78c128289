"""A study run over real sockets: the plan, what each process runs, and the parts gathered into one run folder."""
