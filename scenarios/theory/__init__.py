"""The study of the theorems, which compares bounds with runs on small problems."""
