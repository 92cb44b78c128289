"""Files of the field: graphs, positions of motes, movements, measured links, and captured packets.

`FileContent` is a file's content. A module for each kind of file recognises its formats by content and reads them; what
each format is, and where it is described, says its module. `netsim.topology.read`, `netsim.Deployment.read`,
`netsim.mobility.read`, `netsim.links.from_table` and `netsim.agents.Replayed` are the doors to them.
"""
