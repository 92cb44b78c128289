"""The effects of lost frames on each family of algorithms, and the effect and cost of each remedy."""
