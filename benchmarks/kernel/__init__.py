"""Held against the kernel: the same frames through Linux's traffic control and through netsim's links."""
