"""Studies that run from the command line: data, a network, agents, and what to measure.

A study that is more than a file is a room: ``study.py`` is its entry, the others are what it needs. `tasks` holds what
several studies measure and set, `data` where samples come from, `published` what the papers print.
"""

from netsim.scenarios.data.files import SOURCES
from netsim.studies.catalogue import Entry, Registry

SHELF = Registry(
    {
        "convergecast": Entry(
            "netsim.scenarios.convergecast.study:convergecast",
            "Motes sample and report to a sink over a tree: what arrives, how late, and what it costs.",
            "sensor networks",
        ),
        "intel_lab": Entry(
            "netsim.scenarios.intel_lab:intel_lab",
            "DKLA and COKE on 53 motes of the Intel lab: ideal links, its real ones, remedies; error, bits and energy.",
            "sensor networks",
        ),
        "lifetime": Entry(
            "netsim.scenarios.lifetime:lifetime",
            "Rounds until the first and the median battery is empty, by algorithm, with and without a duty cycle.",
            "sensor networks",
        ),
        "mtu": Entry(
            "netsim.scenarios.mtu:mtu",
            "Bits an element against frames: why three bits fit one IEEE 802.15.4 frame and 64 do not.",
            "sensor networks",
        ),
        "ulb_library": Entry(
            "netsim.scenarios.ulb_library.study:ulb_library",
            "Nineteen motes learn a library's temperature over the packets that were really heard, minute by minute.",
            "sensor networks",
        ),
        "bench": Entry(
            "netsim.scenarios.bench.study:bench",
            "A fixed suite for any method: bits and time to a target error, and survival, on lossy and real links.",
            "packet loss",
        ),
        "bench_case": Entry(
            "netsim.scenarios.bench.case:bench_case",
            "One case of the benchmark: some methods on one of its problems and networks, at given settings.",
            "packet loss",
        ),
        "packet_loss": Entry(
            "netsim.scenarios.packet_loss.study:packet_loss",
            "What lost frames do to each family of algorithms, what each remedy makes of it, and what it costs.",
            "packet loss",
        ),
        "pushsum": Entry(
            "netsim.scenarios.pushsum:pushsum",
            "Averaging over lossy links: Metropolis weights, push-sum, and push-sum with running sums.",
            "packet loss",
        ),
        "neural": Entry(
            "netsim.scenarios.neural:neural",
            "A neural network learned by D-PSGD or other methods from samples that may differ from agent to agent.",
            "neural networks",
        ),
        "aloha": Entry(
            "netsim.scenarios.aloha:aloha",
            "The shared channel: ALOHA, slotted ALOHA and carrier sense against the closed forms.",
            "teaching",
        ),
        "averaging": Entry(
            "netsim.scenarios.averaging:averaging",
            "Gossip averaging on a random geometric graph of sensors.",
            "teaching",
        ),
        "election": Entry(
            "netsim.scenarios.election:election",
            "Leader election on a ring, with each message sent once, and again until it is acknowledged.",
            "teaching",
        ),
        "flooding": Entry(
            "netsim.scenarios.flooding:flooding",
            "Flooding, its spanning tree, and the tree with acknowledgements: who hears the news, and what it costs.",
            "teaching",
        ),
        "generals": Entry(
            "netsim.scenarios.generals:generals",
            "Two generals who attack together or not at all: how often one attacks alone, by the number of messages.",
            "teaching",
        ),
        "coke": Entry(
            "netsim.scenarios.coke:coke",
            "Batch kernel learning: CTA, DKLA and COKE on one network (Xu, Wang, Chen and Tian 2021).",
            "papers",
        ),
        "deep": Entry(
            "netsim.scenarios.deep.study:deep",
            "Deep kernel learning: RF-KL, DKL, DKL-MLP against Deep-semi and a DNN (P. Xu's dissertation, ch. 5).",
            "papers",
        ),
        "deep_network": Entry(
            "netsim.scenarios.deep.network:deep_network",
            "DKL-MLP and RF-KL learned by DKLA, COKE, QC-ODKLA over a network (P. Xu's dissertation, section 5.6).",
            "papers",
        ),
        "dynamic": Entry(
            "netsim.scenarios.dynamic:dynamic",
            "Dynamic kernel learning: DDKL, CoDDKL, QDDKL, QC-DDKL (P. Xu's dissertation, ch. 4).",
            "papers",
        ),
        "frontier": Entry(
            "netsim.scenarios.frontier.study:frontier",
            "Error against bits: every method with every coder and every censor, and the Pareto front.",
            "papers",
        ),
        "omkl": Entry(
            "netsim.scenarios.omkl.study:omkl",
            "Online multi-kernel learning by gossip, on a path, a ring, all links (Ortega and Jafarkhani 2023).",
            "papers",
        ),
        "online": Entry(
            "netsim.scenarios.online:online",
            "Online kernel learning: RFF-DOKL, DOKL, ODKLA, QC-ODKLA (P. Xu's dissertation, ch. 3).",
            "papers",
        ),
        "papers": Entry(
            "netsim.scenarios.papers.study:papers",
            "What the papers report, ours beside theirs: every table and figure that the data at hand allow.",
            "papers",
        ),
        "polk": Entry(
            "netsim.scenarios.polk.study:polk",
            "Online kernel classification with small dictionaries (Koppel, Paternain, Richard and Ribeiro 2018).",
            "papers",
        ),
        "privacy": Entry(
            "netsim.scenarios.privacy.study:privacy",
            "What each algorithm gives away: model bits, raw-data bits and test error of all of them, on one task.",
            "papers",
        ),
        "projections": Entry(
            "netsim.scenarios.projections.study:projections",
            "Kernel regression by successive projections among agents that share examples (Predd, Kulkarni and Poor).",
            "papers",
        ),
        "theory": Entry(
            "netsim.scenarios.theory.study:theory",
            "Every theorem of the papers beside runs on small problems: holds, tight, vacuous, or as printed it fails.",
            "papers",
        ),
    },
    columns=("train_mse", "test_mse", "consensus_error", "dual_residual"),
    sources=SOURCES,
)
"""The studies by name, each with its group. `netsim list` shows them without importing them."""
