"""The study of the theorems: bounds beside runs on small problems."""
