"""Online multi-kernel learning by quantized gossip, and two methods from the literature to compare with."""
