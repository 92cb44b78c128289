"""What every room needs: checked arguments, whole files, data files, keyed draws, types."""
