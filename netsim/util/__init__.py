"""Tools of every room: checked arguments, whole files, data files, keyed draws, types."""
