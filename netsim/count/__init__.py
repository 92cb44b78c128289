"""What is recorded: every frame that was offered to a link, how it ended, every bit, and in what order."""
