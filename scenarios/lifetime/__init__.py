"""Batteries: how long they last, by algorithm."""
