"""Assignment 3: reliable broadcast. Write class Broadcast in some twenty lines, in this file.

One node has news, which all nodes of a connected network shall deliver. ``Broadcast(text)`` is the agent of that node,
``Broadcast()`` that of every other one. To deliver a text is to append it to ``self.delivered``.

A link takes up to 0.1 s, and loses frames. It may be cut for some time. A node may crash and return: its attributes are
as they were, and ``run`` begins anew.

1. Each node delivers the text, once.
2. A node sends the text in messages of kind "text", and answers each that it receives with one of kind "ack".
3. A node sends the text to a neighbour again, at least once a second, until it knows that the neighbour has it, and no
   longer. Without losses no link carries a text twice in the same direction.

``async for frame in self.inbox`` reads the frames as they arrive. What is to be done meanwhile is a task:
``self.task = asyncio.create_task(self.repeat())``.
"""

import netsim


class Broadcast(netsim.Agent):
    """Delivers a text to all nodes of a network whose links lose frames."""

    def __init__(self, text=None):
        self.text = text
        self.delivered = []

    async def run(self):
        """Your part."""
