"""IPv6 over IEEE 802.15.4 (6LoWPAN): the bytes of frames are those of the standards, as Wireshark reads them."""
