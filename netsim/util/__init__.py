"""Tools that all packages use: argument checks, atomic writes, data files, keyed random draws, types."""
