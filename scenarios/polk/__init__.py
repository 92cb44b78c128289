"""Online kernel classification by the greedy projected penalty method."""
