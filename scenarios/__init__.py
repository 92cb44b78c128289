"""Studies that run from the command line: data, a network, agents, and what to measure.

A study that is more than a file is a room: ``study.py`` is its entry, the others are what it needs. `tasks` holds what
several studies measure and set, `data` where samples come from, `published` what the papers print.
"""

from netsim.studies.catalogue import Listed, Shelf

SHELF = Shelf(
    {
        "aloha": Listed(
            "netsim.scenarios.aloha:aloha",
            "The shared channel: ALOHA, slotted ALOHA and carrier sense against the closed forms.",
        ),
        "averaging": Listed(
            "netsim.scenarios.averaging:averaging",
            "Gossip averaging on a random geometric graph of sensors.",
        ),
        "coke": Listed(
            "netsim.scenarios.coke:coke",
            "Batch kernel learning: CTA, DKLA and COKE on one network (Xu, Wang, Chen and Tian 2021).",
        ),
        "convergecast": Listed(
            "netsim.scenarios.convergecast.study:convergecast",
            "Motes sample and report to a sink over a tree: what arrives, how late, and what it costs.",
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
        "election": Listed(
            "netsim.scenarios.election:election",
            "Leader election on a ring, with each message sent once, and again until it is acknowledged.",
        ),
        "flooding": Listed(
            "netsim.scenarios.flooding:flooding",
            "Flooding, its spanning tree, and the tree with acknowledgements: who hears the news, and what it costs.",
        ),
        "frontier": Listed(
            "netsim.scenarios.frontier.study:frontier",
            "Error against bits: every method with every coder and every censor, and the Pareto front.",
        ),
        "generals": Listed(
            "netsim.scenarios.generals:generals",
            "Two generals who attack together or not at all: how often one attacks alone, by the number of messages.",
        ),
        "intel_lab": Listed(
            "netsim.scenarios.intel_lab:intel_lab",
            "DKLA and COKE on 53 motes of the Intel lab: ideal links, its real ones, remedies; error, bits and energy.",
        ),
        "lifetime": Listed(
            "netsim.scenarios.lifetime:lifetime",
            "Rounds until the first and the median battery is empty, by algorithm, with and without a duty cycle.",
        ),
        "mtu": Listed(
            "netsim.scenarios.mtu:mtu",
            "Bits an element against frames: why three bits fit one IEEE 802.15.4 frame and 64 do not.",
        ),
        "omkl": Listed(
            "netsim.scenarios.omkl.study:omkl",
            "Online multi-kernel learning by gossip, on a path, a ring, all links (Ortega and Jafarkhani 2023).",
        ),
        "online": Listed(
            "netsim.scenarios.online:online",
            "Online kernel learning: RFF-DOKL, DOKL, ODKLA, QC-ODKLA (P. Xu's dissertation, ch. 3).",
        ),
        "packet_loss": Listed(
            "netsim.scenarios.packet_loss.study:packet_loss",
            "What lost frames do to each family of algorithms, what each remedy makes of it, and what it costs.",
        ),
        "papers": Listed(
            "netsim.scenarios.papers.study:papers",
            "What the papers report, ours beside theirs: every table and figure that the data at hand allow.",
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
        "pushsum": Listed(
            "netsim.scenarios.pushsum:pushsum",
            "Averaging over lossy links: Metropolis weights, push-sum, and push-sum with running sums.",
        ),
        "ulb_library": Listed(
            "netsim.scenarios.ulb_library.study:ulb_library",
            "Nineteen motes learn a library's temperature over the packets that were really heard, minute by minute.",
        ),
    },
    columns=("train_mse", "test_mse", "consensus_error", "dual_residual"),
)
"""The studies by name. A study is listed here, and found by `netsim list` without being imported."""
