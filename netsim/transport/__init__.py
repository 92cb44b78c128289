"""A frame's path: agent → outbox → link → inbox → agent.

One module for each stage, in the order in which a frame meets them: `context` (an agent's place in its network),
`outbox`, `link_stages` (runs the next two, link by link), `transmitter` (budget, fragments, queue, rate), `path` (loss,
latency, copies), `inbox`. `stages` replaces the stages of a link by their compiled twins, if these were built.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
