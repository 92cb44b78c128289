"""A file that cannot be imported."""

import netsim
import reliable_links


class Broadcast(netsim.Agent):
    async def run(self):
        await reliable_links.broadcast(self)
