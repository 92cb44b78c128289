"""The study of the theorems: what they promise beside runs on small problems."""
