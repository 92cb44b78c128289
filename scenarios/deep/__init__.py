"""Deep kernel learning: against other learners on one machine (`study`), and over a network (`network`)."""
