"""Methods whose agents share a model round by round: batch, online, multi-kernel ones, and what all have in common."""
