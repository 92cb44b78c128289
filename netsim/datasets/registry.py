"""The registry of data sets used by studies: source, preparation, SHA-256, licence and citation.

A SHA-256 covers the prepared table's text, or its arrays (`netsim.datasets.preparation.digest`), so it does not depend
on a file's compression. Each SHA-256 was computed from a file prepared independently of this code, and each preparation
was tested on a copy of the original.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from netsim.datasets import preparation
from netsim.datasets.preparation import Preparation

SHIPPED = Path(__file__).parent / "shipped"
"""The folder of the tables included in netsim."""

UNTRIED = "its preparation was never tried on the original, and no SHA-256 is known"
"""The message about a data set whose original was not available when its preparation was written."""


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A data set: its description, source and preparation.

    Attributes
    ----------
    name : str
        The data set's name in studies and in `find`.
    title : str
        A short description.
    suffix : str
        The suffix of the prepared file: .csv.gz, .npz, or .csv for tables included in netsim.
    source : str
        The address of the web page that publishes the data set.
    licence, citation : str
        The terms stated by the source, and the publication to cite.
    addresses : tuple of str
        The addresses of the original files; empty if they cannot be downloaded.
    sha256 : str
        The digest of the prepared content; "" if unknown.
    why_not : str
        Why netsim cannot download the data set.
    """

    name: str
    title: str
    source: str
    licence: str
    citation: str = ""
    suffix: str = ".csv.gz"
    addresses: tuple[str, ...] = ()
    sha256: str = ""
    why_not: str = ""

    @property
    def ships(self) -> bool:
        """Whether netsim includes the data set."""
        return self.suffix == ".csv"

    @property
    def prepare(self) -> Preparation | None:
        """The function that converts the originals to a table; None if the originals cannot be downloaded.

        It is the function of `netsim.datasets.preparation` that has the data set's name.
        """
        return getattr(preparation, self.name) if self.addresses else None

    @property
    def files(self) -> tuple[str, ...]:
        """The file names at the end of the addresses."""
        return tuple(unquote(urlsplit(each).path).rpartition("/")[2] for each in self.addresses)


_RAW = "https://raw.githubusercontent.com"
_CC_BY = "CC BY 4.0 (UCI)"
_NO_TRADE = f"{_CC_BY}; its README forbids commercial use"


def _uci(number: int, authors: str, title: str, year: int, doi: str, licence: str = _CC_BY) -> dict[str, Any]:
    """Return source, addresses, licence and citation of a data set in the UCI Machine Learning Repository."""
    file = title.lower().replace(" ", "+")
    return {
        "source": f"UCI id {number}",
        "addresses": (f"https://archive.ics.uci.edu/static/public/{number}/{file}.zip",),
        "licence": licence,
        "citation": f"{authors}, {title}, UCI Machine Learning Repository, {year}, doi 10.24432/{doi}",
    }


_BUZZ = (
    "Kawala, Douzal, Gaussier and Diemert, Buzz in social media, UCI Machine Learning Repository, "
    "2013, doi 10.24432/C56G6V"
)
_MAT = f"{_RAW}/Yruikk/DeKRR-DDRF/e3109de00d5948a7492c78923eb7748a262530fa/Fig1/realdata"
_OMFL = f"{_RAW}/JeongminChae/MKL_Online_Federated_Learning/047271eb8d3f3e7883ae0aa4897ad7bc2e26fb79"
_CREDIT = f"{_RAW}/DSPavan/PyClassNotes/347c9951427460a3a43a29e0342ba78496baacf0"
_KIOS = (
    f"{_RAW}/KIOS-Research/KIOS-Graduate-Summer-School-2018/96a94f89191d491e4cf6a934d42bcc9d3c92dcf8/material/diagnosis"
)
_RIVER = f"{_RAW}/online-ml/river/1593268b96c742e6c877a02d62fd649bd635d16c/river/datasets"
_ULB = f"{_RAW}/aathawerani/PatientHealthMonitoring/f2ece0f65780ec20eb902f214a16d8c9ffabbf2c/SWData/2/library1data.tgz"
_MAHIMAHI = f"{_RAW}/ravinet/mahimahi/ae477d437615b972217498ba52be07db17a15618/traces"
_TRACES = (
    "ATT-LTE-driving-2016.down",
    "ATT-LTE-driving-2016.up",
    "ATT-LTE-driving.down",
    "ATT-LTE-driving.up",
    "TMobile-LTE-driving.down",
    "TMobile-LTE-short.down",
    "TMobile-LTE-short.up",
    "TMobile-UMTS-driving.down",
    "TMobile-UMTS-driving.up",
    "Verizon-EVDO-driving.down",
    "Verizon-EVDO-driving.up",
    "Verizon-LTE-short.down",
    "Verizon-LTE-short.up",
)
_MADE: dict[str, Any] = {
    "source": "netsim",
    "suffix": ".csv",
    "licence": "netsim's own, MIT; made by netsim.datasets.synthetic, not measured",
}
_LAB: dict[str, Any] = {
    "source": "db.csail.mit.edu/labdata",
    "licence": "none stated; published for research",
    "citation": "Bodik, Hong, Guestrin, Madden, Paskin and Thibaux, Intel Lab Data, 2004",
}
_LIBRARY: dict[str, Any] = {
    "source": "Machine Learning Group of the ULB, Library 1",
    "addresses": (_ULB,),
    "licence": "none stated",
    "citation": "Machine Learning Group of the ULB, sensorNet data set Library 1, 2006",
}

_SETS = (
    # --- tables to learn from -----------------------------------------------------------------------------------------
    Dataset(
        name="adult",
        title="48,842 people of the census of 1994, two classes of income",
        sha256="4c940a8f6ea233b60b071dd59605ff471e58ce62f1007e693c12b37cbbb29e96",
        **_uci(2, "Becker and Kohavi", "Adult", 1996, "C5XW20"),
    ),
    Dataset(
        name="airquality",
        title="9,357 hours of gas sensors in an Italian city",
        sha256="a81a3f5402a82afe7436c4cf58a0e2dd5c6a9a06fd70551e1040c9b88e29cefb",
        **_uci(360, "Vito", "Air Quality", 2008, "C59K5F"),
    ),
    Dataset(
        name="banana",
        title="5,300 points of two classes, shaped like bananas",
        source="OpenML id 1460, as text in LIBSVM's format",
        addresses=(f"{_RIVER}/banana.zip",),
        sha256="bce7f353f064f00b7bd1f5b4b521db98c06bef430b2d3f4d643adbc13aa03d6c",
        licence="none stated",
        citation="Rätsch, Onoda and Müller, Soft margins for AdaBoost, Machine Learning 42, 2001",
    ),
    Dataset(
        name="blood",
        title="pulse waves and blood pressure",
        source="UCI id 340",
        licence=_CC_BY,
        why_not="gigabytes of raw waves; no paper says how its table was made of them",
    ),
    Dataset(
        name="brodatz_center256",
        title="the middle of Brodatz's 112 textures, 256 × 256 pixels",
        source="P. Brodatz, Textures, 1966",
        suffix=".npz",
        licence="the album's copyright",
        why_not="there is no free collection of the scanned pictures in one file",
    ),
    Dataset(
        name="conductivity",
        title="21,263 superconductors and their critical temperature",
        **_uci(464, "Hamidieh", "Superconductivty Data", 2018, "C53P47"),
    ),
    Dataset(
        name="credit_default",
        title="30,000 credit card clients of Taiwan, whether they default",
        source="UCI id 350, as csv",
        addresses=(f"{_CREDIT}/UCI_Credit_Card.csv.zip",),
        sha256="3fafd71645a1cb6c28afff07c26303e9934391e0b0a5050a4a3755d0af31c033",
        licence=_CC_BY,
        citation="Yeh, Default of Credit Card Clients, UCI Machine Learning Repository, 2009, doi 10.24432/C55S3H",
    ),
    Dataset(
        name="energy",
        title="19,735 readings of a house's temperatures and appliances",
        sha256="33e66770a4e40aef40396cf006596e3a57f9de726342f57c23e290f7d526f6bc",
        **_uci(374, "Candanedo", "Appliances Energy Prediction", 2017, "C5VC8G"),
    ),
    Dataset(
        name="har",
        title="10,299 windows of smartphones' sensors, six activities",
        **_uci(
            240, "Reyes-Ortiz and others", "Human Activity Recognition Using Smartphones", 2013, "C54S4K", _NO_TRADE
        ),
    ),
    Dataset(
        name="letter",
        title="20,000 printed letters by 16 numbers",
        sha256="82a8e8f9a5c6627c013c1310d30e2b7a41f3c71a95287ece1628e0bd3627ff9c",
        **_uci(59, "Slate", "Letter Recognition", 1991, "C5ZP40"),
    ),
    Dataset(
        name="mnist",
        title="70,000 handwritten digits, 28 × 28 pixels",
        source="yann.lecun.com/exdb/mnist, as arrays x and y",
        suffix=".npz",
        addresses=tuple(
            f"https://ossci-datasets.s3.amazonaws.com/mnist/{part}-ubyte.gz"
            for part in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
        ),
        sha256="3e71d732d2b129cd91034763db54dc40f7de2c1944979fc96241ec22e8792735",
        licence="CC BY-SA 3.0, as it is usually cited",
        citation="LeCun, Bottou, Bengio and Haffner, Gradient-based learning applied to document recognition, 1998",
    ),
    Dataset(
        name="sensorless",
        title="58,509 measurements of drives, eleven conditions",
        **_uci(325, "Bator", "Dataset for Sensorless Drive Diagnosis", 2013, "C5VP5F"),
    ),
    Dataset(
        name="sensorless_subset",
        title="200 rows of each class of sensorless",
        source="UCI id 325, the subset of a course",
        addresses=(f"{_KIOS}/dataset/X.npy", f"{_KIOS}/dataset/Y.npy"),
        sha256="aeb5e04de0fcbc12ef41870a1aa77b3c4470ec04dca1e87562050742e183d5a1",
        licence=_CC_BY,
        citation="Bator, Dataset for Sensorless Drive Diagnosis, UCI Machine Learning Repository, 2013, "
        "doi 10.24432/C5VP5F",
    ),
    Dataset(
        name="tomshardware",
        title="28,179 topics of a forum, how much they are discussed",
        source="UCI id 248, regression/TomsHardware.data",
        addresses=(f"{_MAT}/TomsHardware.mat",),
        sha256="5d28b61b3f9636aa8eeee2e4bb0b047043e0e46cf8bca4c0409dc90fd92cbda2",
        licence=_CC_BY,
        citation=_BUZZ,
    ),
    Dataset(
        name="twitter",
        title="13,813 topics of Twitter, how much they are discussed, scaled",
        source="UCI id 248, regression/Twitter.data",
        addresses=(f"{_OMFL}/TwitterData.mat",),
        sha256="dc2483cf70d3df51cc379817c20eb58179d8cd3bf22ff99685b937325c0b5b80",
        licence=_CC_BY,
        citation=_BUZZ,
    ),
    Dataset(
        name="wisdm_har",
        title="5,418 windows of phones' accelerometers, six activities",
        source="WISDM lab, activity recognition v1.1, transformed",
        addresses=("https://www.cis.fordham.edu/wisdm/includes/datasets/latest/WISDM_ar_latest.tar.gz",),
        sha256="090facbfc3236229738596ac41a8685efd8ae604d6d730c800904c13ed204f05",
        licence="free for research (WISDM lab)",
        citation="Kwapisz, Weiss and Moore, Activity recognition using cell phone accelerometers, 2010",
    ),
    # --- links and readings -------------------------------------------------------------------------------------------
    Dataset(
        name="intel_connectivity",
        title="reception between the 54 motes of the Intel Berkeley lab",
        addresses=("http://db.csail.mit.edu/labdata/connectivity.txt",),
        sha256="5dd4dd664695e6e08130db30f59a216f1541ace3b491cd85dd365d15d8f4c6ff",
        **_LAB,
    ),
    Dataset(
        name="intel_mote_locs",
        title="places of the 54 motes of the Intel Berkeley lab",
        addresses=("http://db.csail.mit.edu/labdata/mote_locs.txt",),
        sha256="eb23010d900f6eae46ca4ee35a1032e1af1c8eb8307cc9529f872a33495f338d",
        **_LAB,
    ),
    Dataset(
        name="iotlab_grenoble_k7",
        title="two days of 50 nodes on 16 channels in Grenoble",
        source="the traces of the 6TiSCH simulator",
        addresses=(
            f"{_RAW}/atiselsts/6tisch-simulator/d6c57e3831bf2452a8f18fbd77b518857736d1b2/traces/grenoble.k7.gz",
        ),
        sha256="406833d6f0b6f337be4537375c2c92ac0fe5745362693a4665473db5bbba3625",
        licence="BSD-3-Clause (6TiSCH simulator)",
        citation="Brun-Laguna, Minet, Watteyne and Gomes, Moving beyond testbeds? Lessons (we) learned about "
        "connectivity, 2018",
    ),
    Dataset(
        name="mahimahi_cellular",
        title="13 cellular links: the times of 1500-byte deliveries",
        source="the repository of Mahimahi",
        suffix=".npz",
        addresses=tuple(f"{_MAHIMAHI}/{name}" for name in _TRACES),
        sha256="c047967f488c8b371aaaeb2c3ddb54d44efe19256fbf0c0101a66c647f909417",
        licence="GPL-3.0",
        citation="Netravali and others, Mahimahi: accurate record-and-replay for HTTP, USENIX ATC 2015",
    ),
    Dataset(
        name="rutgers_noise_links",
        title="29 nodes of 802.11 under noise on the ORBIT testbed",
        source="doi.org/10.15783/C7B59W",
        licence="of CRAWDAD: free for research, after registration",
        citation="Kaul, Gruteser and Seskar, CRAWDAD rutgers/noise, 2007, doi 10.15783/C7B59W",
        why_not="CRAWDAD asks for an account",
    ),
    Dataset(
        name="ulb_library1_links",
        title="which packets 19 motes in a library heard, minute by minute",
        sha256="5169cfb7323d2068702d17899d598330683fc336d595e331033be1d1aa212af8",
        **_LIBRARY,
    ),
    Dataset(
        name="ulb_library1_readings",
        title="what the 19 motes in a library measured",
        sha256="7251651711e8ddbf831e8427d7ffe6ca1f681199c4b574ce3bc7adaedf3688c1",
        **_LIBRARY,
    ),
    # --- what ships ---------------------------------------------------------------------------------------------------
    Dataset(
        name="synthetic_connectivity",
        title="reception between 53 motes that netsim made, much as in the Intel lab",
        **_MADE,
    ),
    Dataset(
        name="synthetic_mote_locs",
        title="places of the 53 motes that netsim made",
        **_MADE,
    ),
)

SETS = {each.name: each for each in _SETS}
"""The data sets by name."""
