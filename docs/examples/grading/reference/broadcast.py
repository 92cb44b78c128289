"""Assignment 3: reliable broadcast, as it is meant."""

import asyncio

import netsim


class Broadcast(netsim.Agent):
    """Delivers a text to all nodes of a network whose links lose frames."""

    def __init__(self, text=None):
        self.text = text
        self.delivered = []
        self.has_it = set()

    async def run(self):
        if self.text is not None:
            self.begin()
        async for frame in self.inbox:
            # Who sends the text, or says that it has come, has it.
            self.has_it.add(frame.sender)
            if frame.kind == "text":
                await self.send(frame.sender, "ack")
                if self.text is None:
                    self.text = frame.payload
                    self.begin()

    def begin(self):
        # After a crash the text is there, and was delivered.
        if not self.delivered:
            self.delivered.append(self.text)
        self.task = asyncio.create_task(self.repeat())

    async def repeat(self):
        while missing := [each for each in self.neighbors if each not in self.has_it]:
            for each in missing:
                await self.send(each, "text", self.text)
            await asyncio.sleep(0.5)
