"""Each node passes the text on once: it does not wait for acknowledgements."""

import netsim


class Broadcast(netsim.Agent):
    def __init__(self, text=None):
        self.text = text
        self.delivered = []

    async def run(self):
        if self.text is not None:
            self.delivered.append(self.text)
            await self.broadcast("text", self.text)
        async for frame in self.inbox:
            if frame.kind != "text":
                continue
            await self.send(frame.sender, "ack")
            if self.text is None:
                self.text = frame.payload
                self.delivered.append(self.text)
                for each in self.neighbors:
                    if each != frame.sender:
                        await self.send(each, "text", self.text)
