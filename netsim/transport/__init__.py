"""A frame's path: agent → outbox → link → inbox → agent.

The modules, in the order in which a frame passes them: `outbox` (or `reliable`, which repeats lost frames),
`link_stages` (runs the next two for each link), `transmitter` (budget, fragments, queue, rate), `path` (loss, latency,
copies), `inbox`, `heard` (the frames as a list and as arrays). A broadcast over links that only lose and delay frames
skips the stages: `netsim.core.BroadcastPath` takes it from outbox to inbox. Where nodes have capacities (``uplink``,
``downlink``), `sharing` takes the place of the transmitters; on a `netsim.Radio`, `netsim.radio.mac` that of all
stages. `router` and `routes` carry messages over several links. `stages` replaces the classes of a link by their
compiled twins, if these were built; `shared` holds the state that all agents of a run share.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
