"""The sources of the algorithms: the references to cite."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from netsim.errors import BadInput

if TYPE_CHECKING:
    from netsim import Network
    from netsim.agents.theory.theorem import Range, Theorem

ADPSGD = (
    "X. Lian, W. Zhang, C. Zhang and J. Liu. Asynchronous decentralized parallel stochastic gradient descent. "
    "International Conference on Machine Learning, 2018."
)
BASTIANELLO = (
    "N. Bastianello, M. Todescato, R. Carli and L. Schenato. Distributed optimization over lossy networks via relaxed "
    "Peaceman-Rachford splitting: a robust ADMM approach. European Control Conference, 2018."
)
BEER = (
    "H. Zhao, B. Li, Z. Li, P. Richtárik and Y. Chi. BEER: Fast O(1/T) rate for decentralized nonconvex optimization "
    "with communication compression. Advances in Neural Information Processing Systems 35, 2022."
)
BMAC = (
    "J. Polastre, J. Hill and D. Culler. Versatile low power media access for wireless sensor networks. ACM Conference "
    "on Embedded Networked Sensor Systems (SenSys), 2004."
)
BOUBOULIS = (
    "P. Bouboulis, S. Chouvardas and S. Theodoridis. Online distributed learning over networks in RKH spaces using "
    "random Fourier features. IEEE Transactions on Signal Processing 66(7):1920-1932, 2018."
)
BYZANTINE = (
    "L. Lamport, R. Shostak and M. Pease. The Byzantine generals problem. ACM Transactions on Programming Languages "
    "and Systems 4(3):382-401, 1982."
)
CERF_KAHN = (
    "V. G. Cerf and R. E. Kahn. A protocol for packet network intercommunication. IEEE Transactions on Communications "
    "22(5):637-648, 1974."
)
CHANDY_LAMPORT = (
    "K. M. Chandy and L. Lamport. Distributed snapshots: determining global states of distributed systems. ACM "
    "Transactions on Computer Systems 3(1):63-75, 1985."
)
CHANG = (
    "E. J. H. Chang. Echo algorithms: depth parallel operations on general graphs. IEEE Transactions on Software "
    "Engineering SE-8(4):391-401, 1982."
)
COAP = "Z. Shelby, K. Hartke and C. Bormann. The Constrained Application Protocol (CoAP). RFC 7252, 2014."
COKE = (
    "P. Xu, Y. Wang, X. Chen and Z. Tian. COKE: Communication-censored decentralized kernel learning. Journal of "
    "Machine Learning Research 22, 2021."
)
CONTIKIMAC = "A. Dunkels. The ContikiMAC radio duty cycling protocol. SICS technical report T2011:13, 2011."
CRDT = (
    "M. Shapiro, N. Preguiça, C. Baquero and M. Zawirski. Conflict-free replicated data types. International Symposium "
    "on Stabilization, Safety, and Security of Distributed Systems (SSS), 2011."
)
CTP = (
    "O. Gnawali, R. Fonseca, K. Jamieson, D. Moss and P. Levis. Collection tree protocol. ACM Conference on Embedded "
    "Networked Sensor Systems (SenSys), 2009."
)
DELUGE = (
    "J. W. Hui and D. Culler. The dynamic behavior of a data dissemination protocol for network programming at scale. "
    "ACM Conference on Embedded Networked Sensor Systems (SenSys), 2004."
)
DIGING = (
    "A. Nedić, A. Olshevsky and W. Shi. Achieving geometric convergence for distributed optimization over time-varying "
    "graphs. SIAM Journal on Optimization 27(4):2597-2633, 2017."
)
DIJKSTRA_SCHOLTEN = (
    "E. W. Dijkstra and C. S. Scholten. Termination detection for diffusing computations. Information Processing "
    "Letters 11(1):1-4, 1980."
)
DISSERTATION = (
    "P. Xu. Communication-efficient optimization and learning for distributed multi-agent systems. PhD dissertation, "
    "George Mason University, 2022."
)
EF21 = (
    "P. Richtárik, I. Sokolov and I. Fatkhullin. EF21: A new, simpler, theoretically better, and practically faster "
    "error feedback. Advances in Neural Information Processing Systems 34, 2021."
)
EF21P = (
    "K. Gruntkowska, A. Tyurin and P. Richtárik. EF21-P and friends: Improved theoretical communication complexity for "
    "distributed optimization with bidirectional compression. International Conference on Machine Learning, 2023."
)
EPIDEMIC = (
    "A. Demers, D. Greene, C. Hauser, W. Irish, J. Larson, S. Shenker, H. Sturgis, D. Swinehart and D. Terry. Epidemic "
    "algorithms for replicated database maintenance. ACM Symposium on Principles of Distributed Computing (PODC), 1987."
)
EXTRA = (
    "W. Shi, Q. Ling, G. Wu and W. Yin. EXTRA: An exact first-order algorithm for decentralized consensus "
    "optimization. SIAM Journal on Optimization 25(2):944-966, 2015."
)
FEDAVG = (
    "B. McMahan, E. Moore, D. Ramage, S. Hampson and B. Agüera y Arcas. Communication-efficient learning of deep "
    "networks from decentralized data. International Conference on Artificial Intelligence and Statistics, 2017."
)
FTSP = (
    "M. Maróti, B. Kusy, G. Simon and Á. Lédeczi. The flooding time synchronization protocol. ACM Conference on "
    "Embedded Networked Sensor Systems (SenSys), 2004."
)
GHS = (
    "R. G. Gallager, P. A. Humblet and P. M. Spira. A distributed algorithm for minimum-weight spanning trees. ACM "
    "Transactions on Programming Languages and Systems 5(1):66-77, 1983."
)
GLOSSY = (
    "F. Ferrari, M. Zimmerling, L. Thiele and O. Saukh. Efficient network flooding and time synchronization with "
    "Glossy. ACM/IEEE International Conference on Information Processing in Sensor Networks (IPSN), 2011."
)
KOLOSKOVA = (
    "A. Koloskova, S. U. Stich and M. Jaggi. Decentralized stochastic optimization and gossip algorithms with "
    "compressed communication. International Conference on Machine Learning, 2019."
)
KOPPEL = (
    "A. Koppel, S. Paternain, C. Richard and A. Ribeiro. Decentralized online learning with kernels. IEEE Transactions "
    "on Signal Processing 66(12):3240-3255, 2018."
)
LAG = (
    "T. Chen, G. B. Giannakis, T. Sun and W. Yin. LAG: Lazily aggregated gradient for communication-efficient "
    "distributed learning. Advances in Neural Information Processing Systems 31, 2018."
)
LAMPORT = (
    "L. Lamport. Time, clocks, and the ordering of events in a distributed system. Communications of the ACM "
    "21(7):558-565, 1978."
)
LEAD = (
    "X. Liu, Y. Li, R. Wang, J. Tang and M. Yan. Linear convergent decentralized optimization with compression. "
    "International Conference on Learning Representations, 2021."
)
LIAN = (
    "X. Lian, C. Zhang, H. Zhang, C.-J. Hsieh, W. Zhang and J. Liu. Can decentralized algorithms outperform "
    "centralized algorithms? A case study for decentralized parallel stochastic gradient descent. Advances in Neural "
    "Information Processing Systems 30, 2017."
)
LTADMM = (
    "X. Ren, N. Bastianello, K. H. Johansson and T. Parisini. Communication-efficient stochastic distributed learning. "
    "arXiv 2501.13516, 2025."
)
MATTERN = (
    "F. Mattern. Virtual time and global states of distributed systems. In: Parallel and Distributed Algorithms, "
    "North-Holland, 1989."
)
ORTEGA = "T. Ortega and H. Jafarkhani. Gossiped and quantized online multi-kernel learning. 2023."
PG_EXTRA = (
    "W. Shi, Q. Ling, G. Wu and W. Yin. A proximal gradient algorithm for decentralized composite optimization. IEEE "
    "Transactions on Signal Processing 63(22):6013-6023, 2015."
)
PREDD = (
    "J. B. Predd, S. R. Kulkarni and H. V. Poor. Distributed kernel regression: an algorithm for training "
    "collaboratively. IEEE Information Theory Workshop, 2006."
)
RAFT = (
    "D. Ongaro and J. Ousterhout. In search of an understandable consensus algorithm. USENIX Annual Technical "
    "Conference, 2014."
)
RICART_AGRAWALA = (
    "G. Ricart and A. K. Agrawala. An optimal algorithm for mutual exclusion in computer networks. Communications of "
    "the ACM 24(1):9-17, 1981."
)
RIP = "C. Hedrick. Routing information protocol. RFC 1058, 1988."
RPL = (
    "T. Winter, P. Thubert, A. Brandt, J. Hui, R. Kelsey, P. Levis, K. Pister, R. Struik, J. P. Vasseur and R. "
    "Alexander. RPL: IPv6 routing protocol for low-power and lossy networks. RFC 6550, 2012."
)
SCAFFOLD = (
    "S. P. Karimireddy, S. Kale, M. Mohri, S. J. Reddi, S. U. Stich and A. T. Suresh. SCAFFOLD: stochastic controlled "
    "averaging for federated learning. International Conference on Machine Learning, 2020."
)
SGP = (
    "M. Assran, N. Loizou, N. Ballas and M. Rabbat. Stochastic gradient push for distributed deep learning. "
    "International Conference on Machine Learning, 2019."
)
SHEN = (
    "Y. Shen, S. Karimi-Bidhendi and H. Jafarkhani. Distributed and quantized online multi-kernel learning. IEEE "
    "Transactions on Signal Processing 69:5496-5511, 2021."
)
TSCH = (
    "X. Vilajosana, K. Pister and T. Watteyne. Minimal IPv6 over the TSCH mode of IEEE 802.15.4e (6TiSCH) "
    "configuration. RFC 8180, 2017."
)
XMAC = (
    "M. Buettner, G. V. Yee, E. Anderson and R. Han. X-MAC: a short preamble MAC protocol for duty-cycled wireless "
    "sensor networks. ACM Conference on Embedded Networked Sensor Systems (SenSys), 2006."
)


class Cited:
    """An algorithm with its references, and the theorems that hold for it (`netsim.agents.theory`)."""

    paper: ClassVar[str] = ""
    theorems: ClassVar["tuple[Theorem, ...]"] = ()

    @classmethod
    def citation(cls) -> str:
        """Return the reference to cite for the algorithm; "" if it has none."""
        return cls.paper

    @staticmethod
    def doubts(agents: Mapping[Any, Any], network: "Network") -> list[str]:
        """Return a line for each parameter of all agents of a network that is outside a theorem's range.

        There are no lines if no theorem applies, as on lossy links, or for costs of unknown curvature.
        """
        from netsim.agents import theory

        return [] if theory.not_ideal(network) else theory.warnings(agents, network.graph)

    @staticmethod
    def admissible(
        agents: Mapping[Any, Any], network: "Network", parameters: Iterable[str]
    ) -> "dict[str, tuple[Range, float | None]]":
        """Return `netsim.agents.theory.admissible`; raises BadInput if no theorem applies to the network."""
        from netsim.agents import theory

        if reason := theory.not_ideal(network):
            raise BadInput(f"network: must be one that theorems cover; theorems are {reason}")
        return theory.admissible(agents, network.graph, parameters)
