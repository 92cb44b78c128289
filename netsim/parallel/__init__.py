"""Run one network over several workers, in virtual time, with the same results as in one process."""
