"""The samples of studies: files, tables, classes, streams, and synthetic problems."""
