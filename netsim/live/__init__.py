"""A run shown while it goes on: what its pages are told, and the server on this machine that tells them."""
