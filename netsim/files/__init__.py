"""Files of the field: graphs, positions of motes, movements, measured links, and captured packets.

`Source` is a file's content. A module for each kind of file recognises its formats by content and reads them; its
docstring describes the formats and their sources. The public readers are `netsim.topology.read`,
`netsim.Deployment.read`, `netsim.mobility.read`, `netsim.links.from_table` and `netsim.agents.Replayed`.
"""
