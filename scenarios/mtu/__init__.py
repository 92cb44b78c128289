"""Bits an element against frames: what fits one, and what comes of what does not."""
