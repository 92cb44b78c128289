Creator "Topology Zoo Toolset"
graph [
  Network "Ours"
  node [ id 0 label "Oslo" Longitude 10.75 Latitude 59.91 ]
  node [ id 1 label "None" hyperedge 1 ]
  node [ id 2 label "None" hyperedge 1 ]
  node [ id 3 label "Bergen" Longitude 5.32 Latitude 60.39 ]
  node [ id 4 label "Voss" Longitude 6.42 Latitude 60.63 ]
  node [ id 5 label "Hamar" Longitude 11.07 Latitude 60.79 ]
  edge [ source 0 target 1 key 0 LinkLabel "10G" LinkSpeedRaw 10000000000.0 ]
  edge [ source 0 target 1 key 1 LinkLabel "10G" LinkSpeedRaw 10000000000.0 ]
  edge [ source 1 target 2 ]
  edge [ source 2 target 3 ]
  edge [ source 3 target 4 ]
  edge [ source 4 target 5 ]
  edge [ source 5 target 0 ]
]
