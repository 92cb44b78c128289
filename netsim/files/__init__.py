"""Files of the field: graphs, positions of motes, movements, measured links, and captured packets.

`FileContent` is a file's content. For each kind of file, a module recognises the formats by content and reads them; the
module's docstring describes the formats and names their sources. `netsim.topology.read`, `netsim.Deployment.read`,
`netsim.mobility.read`, `netsim.links.from_table` and `netsim.agents.Replayed` call these modules.
"""
