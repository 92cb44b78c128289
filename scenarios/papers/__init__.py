"""The papers' results compared with netsim's: printed tables, and claims of figures and texts."""
