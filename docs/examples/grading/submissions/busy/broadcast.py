"""It waits for the acknowledgements in a loop in which no time passes."""

import netsim


class Broadcast(netsim.Agent):
    def __init__(self, text=None):
        self.text = text
        self.delivered = []
        self.acks = set()

    async def run(self):
        if self.text is not None:
            self.delivered.append(self.text)
            await self.broadcast("text", self.text)
            while len(self.acks) < len(self.neighbors):
                pass
        async for frame in self.inbox:
            if frame.kind == "ack":
                self.acks.add(frame.sender)
            else:
                await self.send(frame.sender, "ack")
