"""Where samples come from: files, tables, classes, streams, synthetic problems."""
