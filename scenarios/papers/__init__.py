"""The papers' results beside netsim's: tables, and claims of figures and texts."""
