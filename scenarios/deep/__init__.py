"""Deep kernel learning: beside other learners on one machine (`study`), and over a network (`network`)."""
