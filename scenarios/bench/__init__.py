"""A fixed suite of problems and networks on which any method can be tried, and compared with others."""
