"""Tools that all packages use: argument checks, files that are written atomically, data files, keyed random draws, types."""
