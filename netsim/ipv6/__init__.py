"""IPv6 over IEEE 802.15.4 (6LoWPAN): a frame's bytes are those of the standards, as Wireshark reads them."""

from netsim.ipv6.stack import IPv6Stack, Packets, SixLowpan

__all__ = ["IPv6Stack", "Packets", "SixLowpan"]
