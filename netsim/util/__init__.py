"""Tools for all packages: checked arguments, atomic files, data files, keyed draws, types."""
