"""A transport over a NATS server, with nats-py: each process subscribes to a subject of its own."""

import asyncio
from contextlib import suppress

import nats

from netsim import NetsimError
from netsim.distributed import Transport

ONCE = {"allow_reconnect": False, "max_reconnect_attempts": 1, "reconnect_time_wait": 0.1}


class NATS(Transport):
    """Carries datagrams over a server such as "nats://127.0.0.1:4222"; processes have names without spaces."""

    def __init__(self, server, here, peers, **settings):
        super().__init__(here, peers, **settings)
        self.server = server
        self.outgoing = None

    async def open(self):
        try:
            self.client = await nats.connect(self.server, error_cb=self.note, closed_cb=self.lost, **ONCE)
        except (OSError, TimeoutError, nats.errors.Error) as error:
            raise NetsimError(f"server = {self.server!r}: cannot be reached ({error})") from None
        await self.client.subscribe(f"netsim.{self.here}", cb=self.take)
        await self.client.flush()  # now the server knows of it
        self.outgoing = asyncio.Queue(10_000)
        self.sending = asyncio.create_task(self.send_on(self.outgoing))

    def send(self, to, data):
        if self.outgoing is not None and not self.outgoing.full():  # what does not fit is lost
            self.outgoing.put_nowait((f"netsim.{to}", data))

    async def send_on(self, outgoing):
        with suppress(nats.errors.Error):  # `lost` says what happened
            while True:
                await self.client.publish(*await outgoing.get())

    async def take(self, message):
        self.deliver(message.data)

    async def note(self, error):
        """Log nothing."""

    async def lost(self):
        if self.outgoing is not None:
            self.fail(f"server = {self.server!r}: the connection was lost")

    async def close(self):
        if self.outgoing is not None:
            outgoing, self.outgoing = self.outgoing, None
            self.sending.cancel()
            await asyncio.wait([self.sending])
            while not (outgoing.empty() or self.client.is_closed):
                await self.client.publish(*outgoing.get_nowait())
            await self.client.close()
