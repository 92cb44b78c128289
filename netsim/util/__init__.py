"""Tools that all packages use: argument checks, atomic and data files, keyed random draws, types."""
