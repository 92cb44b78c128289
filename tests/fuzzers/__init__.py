"""Generators of random inputs with the law that each must hold; bounded in the tests, endless in a soak."""
