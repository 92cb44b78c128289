"""A frame's way: agent → outbox → link → inbox → agent.

One module for each stage, in the order in which a frame meets them: `context` (what an agent holds of its network),
`outbox`, `link_stages` (the next two, link by link), `transmitter` (budget, fragments, queue, rate), `path` (loss,
latency, copies), `inbox`. `stages` chooses between those of the links and their compiled twins.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
