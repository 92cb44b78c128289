"""IPv6 over IEEE 802.15.4 (6LoWPAN): frames have the format of the standards, so that Wireshark can decode them."""

from netsim.ipv6.stack import IPv6Stack, Packets, SixLowpan

__all__ = ["IPv6Stack", "Packets", "SixLowpan"]
