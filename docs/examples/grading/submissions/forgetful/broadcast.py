"""All but one thing: after a crash the node that has the news delivers it once more."""

import asyncio

import netsim


class Broadcast(netsim.Agent):
    def __init__(self, text=None):
        self.text = text
        self.delivered = []
        self.missing = None

    async def run(self):
        if self.text is not None:
            self.delivered.append(self.text)
            self.task = asyncio.create_task(self.repeat())
        async for frame in self.inbox:
            if frame.kind == "text":
                await self.send(frame.sender, "ack")
                if self.text is None:
                    self.text = frame.payload
                    self.delivered.append(self.text)
                    self.task = asyncio.create_task(self.repeat())
            if self.missing is None:
                self.missing = set(self.neighbors)
            self.missing.discard(frame.sender)

    async def repeat(self):
        if self.missing is None:
            self.missing = set(self.neighbors)
        while self.missing:
            for each in sorted(self.missing):
                await self.send(each, "text", self.text)
            await asyncio.sleep(0.5)
