"""Assignment 3: reliable broadcast. Write class Broadcast in some twenty lines, in this file.

One node has a news, which all nodes of a connected network shall deliver. ``Broadcast(text)`` is the agent of that node,
``Broadcast()`` that of each other one. To deliver a text, append it to ``self.delivered``.

A link takes up to 0.1 s, and loses frames. It may be cut for some time. A node may crash and return: its attributes are as
they were, and ``run`` begins anew.

1. Each node delivers the text, once.
2. A node sends messages of kind "text", whose payload is the text, and answers each with one of kind "ack".
3. A node sends the text to a neighbour again, at least once a second, until it knows that the neighbour has it, and no longer.
   Without losses no link carries a text twice in the same direction.

``async for frame in self.inbox`` reads the frames as they arrive, and ends when none can arrive any more. What is to be done
meanwhile is a task: ``asyncio.create_task(self.repeat())``.
"""

import netsim


class Broadcast(netsim.Agent):
    """Delivers a text to all nodes of a network whose links lose frames."""

    def __init__(self, text=None):
        self.text = text
        self.delivered = []

    async def run(self):
        """Your part."""
