"""A real device in an emulated network: it sends readings over UDP to a mote, which passes them on by radio to a sink.

``python device.py`` runs the network and waits for a device; ``python device.py device`` is one.
"""

import asyncio
import socket
import sys

import networkx as nx

import netsim

PORT = 5700
PRESET = netsim.presets.ieee802154()


class Datagrams(asyncio.DatagramProtocol):
    """Puts what arrives into a queue: (data, address)."""

    def __init__(self):
        self.arrived = asyncio.Queue()

    def datagram_received(self, data, address):
        self.arrived.put_nowait((data, address))


class Gateway(netsim.Agent):
    """A mote whose sensor is the device: each datagram becomes a message, and its fate goes back to the device."""

    def __init__(self, port=PORT):
        self.port = port

    async def run(self):
        loop = asyncio.get_running_loop()
        transport, device = await loop.create_datagram_endpoint(Datagrams, local_addr=("127.0.0.1", self.port))
        try:
            while True:
                data, address = await device.arrived.get()
                acknowledged = await self.deliver("relay", "reading", data.decode())
                transport.sendto(b"delivered" if acknowledged else b"not delivered", address)
                if data == b"end":
                    return
        finally:
            transport.close()


class Relay(netsim.Agent):
    async def run(self):
        async for frame in self.inbox:
            await self.deliver("sink", frame.kind, frame.payload)
            if frame.payload == "end":
                return


class Sink(netsim.Agent):
    async def run(self):
        self.readings = []
        async for frame in self.inbox:
            if frame.payload == "end":
                return
            self.readings.append(frame.payload)
            print(f"{self.now:.3f} s: {frame.payload}", flush=True)


def network_run(port=PORT, until=60.0):
    graph = nx.path_graph(["gateway", "relay", "sink"])
    network = netsim.Network(graph, PRESET.link, medium=PRESET.radio, seed=1)
    return network.run({"gateway": Gateway(port), "relay": Relay(), "sink": Sink()}, until=until, clock="wall")


def device(port=PORT, readings=5, seconds=0.2):
    """Send readings, and print the answer to each; this needs nothing of netsim and may run on any host."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.settimeout(seconds)
        for text in [*(f"{20 + k / 2} °C" for k in range(readings)), "end"]:
            answer = None
            while answer is None:  # until the network is there
                try:
                    line.sendto(text.encode(), ("127.0.0.1", port))
                    answer = line.recv(100)
                except (TimeoutError, ConnectionRefusedError):
                    pass
            print(text, answer.decode(), flush=True)


if __name__ == "__main__":
    device() if "device" in sys.argv else network_run()
