"""A file that cannot be imported."""

import reliable_links

import netsim


class Broadcast(netsim.Agent):
    async def run(self):
        await reliable_links.broadcast(self)
