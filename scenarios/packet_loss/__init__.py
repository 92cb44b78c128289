"""What lost frames do to each family of algorithms, what each remedy makes of it, and what that costs."""
