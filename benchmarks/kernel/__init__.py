"""Compare netsim's links with the kernel: the same frames go through Linux's traffic control and through netsim."""
