"""Read files of other programs: graphs, positions of motes, movements, measured links, and captured packets.

`FileContent` holds a file's content. Each kind of file has a module that recognises its formats by content, and reads
them. The module's docstring describes the formats and their sources. `netsim.topology.read`, `netsim.Deployment.read`,
`netsim.mobility.read`, `netsim.links.from_table` and `netsim.agents.Replayed` call these modules.
"""
