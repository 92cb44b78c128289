"""Watch a run: its trace as one page for the browser."""
