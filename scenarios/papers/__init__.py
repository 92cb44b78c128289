"""What the papers report beside what netsim gets: their tables, and what their figures and texts claim."""
