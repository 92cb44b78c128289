"""Speed, always beside something else that does the same. Run by hand: python -m benchmarks.NAME."""
