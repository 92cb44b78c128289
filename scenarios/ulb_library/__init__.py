"""Nineteen motes in a library of the ULB, with their own readings, over the packets that were really heard."""
