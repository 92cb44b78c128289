"""A border router between UDP and motes: a CoAP client in another process asks a mote two hops away.

``python border_router.py`` runs the network in real time; ``python border_router.py client`` is a client, which needs
aiocoap only.
"""

import asyncio
import contextlib
import sys

import aiocoap
from aiocoap import resource

import netsim
from netsim.agents import RPL
from netsim.agents.protocols.coap import KIND, CoAP

PORT = 5700  # of mote k: PORT + k


class Temperature(resource.Resource):
    async def render_get(self, request):
        return aiocoap.Message(payload=b"21.5")


class Gate(asyncio.DatagramProtocol):
    """The UDP port of a mote: what arrives goes to the mote, and the mote's answers go to who asked last."""

    def __init__(self, routing, node):
        self.routing, self.node, self.asker = routing, node, None

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, address):
        self.asker = address
        self.routing.datagram(self.node, data, KIND)


class Router(netsim.Part):
    """Has a UDP port for each mote."""

    kinds = (KIND,)

    def __init__(self, port, motes):
        self.port, self.motes = port, motes

    async def run(self):
        gates = {node: Gate(self.mote.routing, node) for node in self.motes}
        loop, opened = asyncio.get_running_loop(), []
        try:
            for node, gate in gates.items():
                place = "127.0.0.1", self.port + node
                opened.append(await loop.create_datagram_endpoint(lambda gate=gate: gate, local_addr=place))
            async for message in self.inbox:
                gate = gates[message.sender]
                gate.transport.sendto(message.payload, gate.asker)
        finally:
            for transport, _ in opened:
                transport.close()


def routing(**settings):
    return RPL(downward="non-storing", imin=0.1, **settings)


def mote():
    site = resource.Site()
    site.add_resource(["temperature"], Temperature())
    return netsim.Mote(routing=routing(), coap=CoAP(site))


def network_run(port=PORT, until=600.0):
    preset = netsim.presets.ieee802154(acks=True)
    motes = {0: netsim.Mote(routing=routing(is_sink=True), gates=Router(port, [1, 2])), 1: mote(), 2: mote()}
    network = netsim.Network(netsim.topology.path(3), preset.link, medium=preset.radio, seed=1)
    return network.run(motes, until=until, clock="wall")


async def client(port=PORT, node=2):
    """Ask until the network is there, and print the answer."""
    context = await aiocoap.Context.create_client_context(transports=["simple6"])
    answer = None
    while answer is None:
        await asyncio.sleep(0.1)
        request = aiocoap.Message(code=aiocoap.GET, uri=f"coap://127.0.0.1:{port + node}/temperature")
        with contextlib.suppress(aiocoap.error.NetworkError):
            answer = await context.request(request).response
    print(answer.code, answer.payload.decode(), flush=True)
    await context.shutdown()


if __name__ == "__main__":
    asyncio.run(client()) if "client" in sys.argv else network_run()
