"""A frame's path: agent → outbox → link → inbox → agent.

The modules, in the order in which a frame passes them: `outbox` (or `reliable`, which repeats lost frames),
`link_stages` (runs the next two for each link), `transmitter` (budget, fragments, queue, rate), `path` (loss, latency,
copies), `inbox`, `heard` (the frames as a list and as arrays). A broadcast over links that only lose and delay frames
skips the stages: `netsim.core.BroadcastPath` carries it from outbox to inbox. If nodes have capacities (``uplink``,
``downlink``), `sharing` replaces the transmitters. On a `netsim.Radio`, `netsim.radio.mac` replaces all stages.
`router` and `routes` carry messages over several links. `stages` exports the compiled versions of a link's classes, if
they were built. `shared` holds the state that all agents of a run share.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
