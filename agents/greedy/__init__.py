"""Online learning over dictionaries that grow and are pruned: the greedy projected penalty method."""
