"""Studies that run from the command line: data, a network, agents, and what to measure.

A study that is more than a file is a room: ``study.py`` is its entry, the others are what it needs. `tasks` holds what
several studies measure and set, `data` where samples come from, `published` what the papers print.
"""

from netsim.studies.catalogue import Listed, Shelf

SHELF = Shelf(
    {
        "averaging": Listed(
            "netsim.scenarios.averaging:averaging",
            "Gossip averaging on a random geometric graph of sensors.",
        ),
        "coke": Listed(
            "netsim.scenarios.coke:coke",
            "Batch kernel learning: CTA, DKLA and COKE on one network (Xu, Wang, Chen and Tian 2021).",
        ),
        "deep": Listed(
            "netsim.scenarios.deep.study:deep",
            "Deep kernel learning: RF-KL, DKL, DKL-MLP against a DNN (P. Xu's dissertation, ch. 5).",
        ),
        "deep_network": Listed(
            "netsim.scenarios.deep.network:deep_network",
            "DKL-MLP and RF-KL learned by DKLA, COKE, QC-ODKLA over a network (P. Xu's dissertation, section 5.6).",
        ),
        "dynamic": Listed(
            "netsim.scenarios.dynamic:dynamic",
            "Dynamic kernel learning: DDKL, CoDDKL, QDDKL, QC-DDKL (P. Xu's dissertation, ch. 4).",
        ),
        "frontier": Listed(
            "netsim.scenarios.frontier.study:frontier",
            "Error against bits: every method with every coder and every censor, and the Pareto front.",
        ),
        "omkl": Listed(
            "netsim.scenarios.omkl.study:omkl",
            "Online multi-kernel learning by gossip, on a path, a ring, all links (Ortega and Jafarkhani 2023).",
        ),
        "online": Listed(
            "netsim.scenarios.online:online",
            "Online kernel learning: RFF-DOKL, DOKL, ODKLA, QC-ODKLA (P. Xu's dissertation, ch. 3).",
        ),
        "polk": Listed(
            "netsim.scenarios.polk.study:polk",
            "Online kernel classification with small dictionaries (Koppel, Paternain, Richard and Ribeiro 2018).",
        ),
        "privacy": Listed(
            "netsim.scenarios.privacy.study:privacy",
            "What each algorithm gives away: model bits, raw-data bits and test error of all of them, on one task.",
        ),
        "projections": Listed(
            "netsim.scenarios.projections.study:projections",
            "Kernel regression by successive projections among agents that share examples (Predd, Kulkarni and Poor).",
        ),
    },
    columns=("train_mse", "test_mse", "consensus_error", "dual_residual"),
)
"""The studies by name. A study is listed here, and found by `netsim list` without being imported."""
