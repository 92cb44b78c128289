"""Error against bits of every method with every coder and every censor."""
