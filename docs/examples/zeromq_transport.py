"""A transport over ZeroMQ, with pyzmq: each process pulls at its own address, and pushes to the others'."""

import asyncio
from contextlib import suppress

import zmq
import zmq.asyncio

from netsim import NetsimError
from netsim.distributed import Transport


class ZeroMQ(Transport):
    """Carries datagrams over TCP without a server; processes are named by their addresses, as "127.0.0.1:9000"."""

    push = None

    async def open(self):
        self.contexts = zmq.Context(), zmq.asyncio.Context()
        pull = self.contexts[1].socket(zmq.PULL)
        try:
            pull.bind(f"tcp://{self.here}")
        except zmq.ZMQError as error:
            for context in self.contexts:
                context.destroy()
            raise NetsimError(f"here = {self.here!r}: must be an available address ({error})") from None
        self.push = {name: self.contexts[0].socket(zmq.PUSH) for name in self.peers}
        for name, socket in self.push.items():
            socket.immediate = True  # nothing is kept for who is not there
            socket.sndhwm = 10_000  # datagrams that may wait
            socket.connect(f"tcp://{name}")
        self.taking = asyncio.create_task(self.take(pull))

    def send(self, to, data):
        with suppress(zmq.Again):  # what does not fit is lost
            if self.push is not None:
                self.push[to].send(data, zmq.NOBLOCK)

    async def take(self, pull):
        while True:
            self.deliver(await pull.recv())

    async def close(self):
        if self.push is not None:
            self.push = None
            self.taking.cancel()
            await asyncio.wait([self.taking])
            for context in self.contexts:
                context.destroy(linger=500)  # real milliseconds for what waits
