"""The way of a frame, and of time: agent → outbox → link → inbox → agent.

One module for each stage, in the order in which a frame meets them: `context` (what an agent holds of its network),
`wire` (payload to bytes), `outbox`, `port` (budget, fragments, queue, rate), `path` (loss, latency, copies), `air`
(collisions), `inbox`. `clock` is time, `rounds` its division, `shared` what all agents of a run share.
"""
