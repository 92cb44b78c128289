"""One network over several workers, in virtual time: the same results as in one process."""
