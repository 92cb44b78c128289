"""A fixed suite of problems and networks for testing and comparing any method."""
