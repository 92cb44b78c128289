"""Convert published files to the tables that studies read, with a function for each data set.

Each function takes the `Originals` and returns a table, or a dict of arrays. `netsim.datasets.registry` holds the
SHA-256 of each result.
"""

import fnmatch
import gzip
import hashlib
import io
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import BadInput, one_line

if TYPE_CHECKING:
    import pandas as pd

Arrays = Mapping[str, NDArray[Any]]
Preparation = Callable[["Originals"], "pd.DataFrame | Arrays"]
_UNREADABLE = (OSError, EOFError, zipfile.BadZipFile, tarfile.TarError, zlib.error)


class Originals:
    """The published files, including those inside archives, keyed by their names without folders."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._files: dict[str, Callable[[], bytes]] = {}
        for path in paths:
            self._add(path.name, path.read_bytes)

    def _add(self, name: str, read: Callable[[], bytes]) -> None:
        lower = name.lower()
        try:
            if lower.endswith(".zip"):
                self._add_zip(read())
            elif lower.endswith((".tar.gz", ".tgz")):
                self._add_tar(read())
            elif lower.endswith(".gz"):
                self._add(name[:-3], lambda: gzip.decompress(read()))
            else:
                self._files[name] = read
        except _UNREADABLE as error:
            raise BadInput(f"{name} cannot be read: {one_line(error)}") from None

    def _add_zip(self, data: bytes) -> None:
        archive = zipfile.ZipFile(io.BytesIO(data))
        for name in archive.namelist():
            # The folder __MACOSX of an archive contains metadata files with the same names as the real files.
            if not name.endswith("/") and not name.startswith("__MACOSX"):
                self._add(PurePosixPath(name).name, lambda name=name: archive.read(name))  # type: ignore[misc]

    def _add_tar(self, data: bytes) -> None:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for member in archive:
                if (file := archive.extractfile(member)) is not None:
                    found = file.read()
                    self._add(PurePosixPath(member.name).name, lambda found=found: found)  # type: ignore[misc]

    def names(self, *patterns: str) -> list[str]:
        """Return the names that match any of some `fnmatch` patterns, in alphabetical order."""
        return sorted(name for name in self._files if any(fnmatch.fnmatchcase(name, each) for each in patterns))

    def __getitem__(self, name: str) -> bytes:
        """Return the content of a file; raises BadInput if no file has this name, or the file is damaged."""
        if name not in self._files:
            there = ", ".join(sorted(self._files)[:8]) or "nothing"
            raise BadInput(f"the original must hold {name}; it holds {there}")
        try:
            return self._files[name]()
        except _UNREADABLE as error:
            raise BadInput(f"{name} cannot be read: {one_line(error)}") from None

    def text(self, name: str) -> str:
        """Return the content of a text file, with line ends converted to \n."""
        return self[name].decode("utf-8", "replace").replace("\r\n", "\n")

    def frame(self, name: str, **how: Any) -> "pd.DataFrame":
        """Return a text file as a table, by `pandas.read_csv`."""
        import pandas as pd

        found: pd.DataFrame = pd.read_csv(io.BytesIO(self[name]), **how)
        return found


# --- what is written --------------------------------------------------------------------------------------------------


def content(prepared: "pd.DataFrame | Arrays") -> bytes:
    """Return a table as csv, or the bytes of arrays that their SHA-256 covers: names, types, shapes and elements."""
    if not isinstance(prepared, Mapping):
        text: str = prepared.to_csv(index=False, lineterminator="\n")
        return text.encode()
    pieces = []
    for name in sorted(prepared):
        array = np.ascontiguousarray(prepared[name])
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        pieces += [f"{name} {array.dtype.str} {array.shape}\n".encode(), array.tobytes()]
    return b"".join(pieces)


def digest(prepared: "pd.DataFrame | Arrays") -> str:
    """Return the SHA-256 of a prepared table's or arrays' content, in hexadecimal digits."""
    return hashlib.sha256(content(prepared)).hexdigest()


def content_digest(path: Path) -> str:
    """Return the `digest` of a prepared file, .csv.gz or .npz, which does not depend on its compression."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            return digest({name: arrays[name] for name in arrays.files})
    return hashlib.sha256(gzip.decompress(path.read_bytes())).hexdigest()


def _ten_digits(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Return a table of numbers as floats of 10 significant digits."""
    return frame.map(lambda cell: float(f"{float(cell):.10g}"))


def _numbered(inputs: Any, target: Any, name: str) -> "pd.DataFrame":
    """Return a table with the columns f0, f1, … and a target; inputs have the shape (n, d), the target (n,)."""
    import pandas as pd

    frame = pd.DataFrame(inputs, columns=[f"f{place}" for place in range(inputs.shape[1])])
    frame[name] = target
    return frame


# --- tables -----------------------------------------------------------------------------------------------------------


def airquality(originals: Originals) -> "pd.DataFrame":
    """Prepare AirQualityUCI.xlsx, which has more digits than the csv file; missing values remain coded as −200."""
    import pandas as pd

    data = io.BytesIO(originals["AirQualityUCI.xlsx"])
    try:
        frame = pd.read_excel(data, engine="openpyxl")
    except ImportError:
        raise BadInput("AirQualityUCI.xlsx: must be read with openpyxl: pip install '.[data]' in the clone") from None
    hours = [time.hour for time in frame["Time"]]
    times = [f"{date:%Y-%m-%d} {time:%H:%M:%S}" for date, time in zip(frame["Date"], frame["Time"], strict=True)]
    target = "PT08.S5(O3)"
    values = frame.drop(columns=["Date", "Time"])
    values.insert(0, "hour_frac", np.array(hours) / 24)
    values = _ten_digits(values[[*(each for each in values if each != target), target]])
    values.insert(0, "datetime", times)
    return values


def energy(originals: Originals) -> "pd.DataFrame":
    """Prepare energydata_complete.csv: the target Appliances moves to the end, numbers have 10 digits."""
    frame = originals.frame("energydata_complete.csv")
    columns = [each for each in frame if each not in ("date", "Appliances")]
    values = _ten_digits(frame[[*columns, "Appliances"]])
    values.insert(0, "date", frame["date"])
    return values


def _mat(originals: Originals, name: str) -> dict[str, Any]:
    from scipy.io import loadmat

    try:
        # scipy's type stubs accept only paths here.
        return dict(loadmat(io.BytesIO(originals[name])))  # type: ignore[arg-type]
    except (ValueError, NotImplementedError, TypeError) as error:
        raise BadInput(f"{name} cannot be read: {one_line(error)}") from None


def tomshardware(originals: Originals) -> "pd.DataFrame":
    """Prepare the arrays X and Y of TomsHardware.mat, in the order of UCI's columns."""
    found = _mat(originals, "TomsHardware.mat")
    return _numbered(found["X"], found["Y"].ravel(), "target")


def twitter(originals: Originals) -> "pd.DataFrame":
    """Prepare the arrays X, with one sample per column, and y of TwitterData.mat; numbers have 10 digits."""
    found = _mat(originals, "TwitterData.mat")
    # Convert to text here, because pandas would write 0 as 0.0.
    return _numbered(found["X"].T, found["y"].ravel(), "target").map("{:.10g}".format)


def banana(originals: Originals) -> "pd.DataFrame":
    """Prepare a file in LIBSVM's text format, whose lines have a label, then inputs as index:value."""
    import pandas as pd

    rows = [line.split() for line in originals.text("banana.all.txt").splitlines() if line.strip()]
    cells = [[*(cell.partition(":")[2] for cell in row[1:]), row[0]] for row in rows]
    return pd.DataFrame(cells, columns=["x1", "x2", "label"]).astype({"x1": float, "x2": float})


def credit_default(originals: Originals) -> "pd.DataFrame":
    """Prepare UCI_Credit_Card.csv, without its column ID."""
    return originals.frame("UCI_Credit_Card.csv").drop(columns="ID")


_LETTER = "x-box,y-box,width,high,onpix,x-bar,y-bar,x2bar,y2bar,xybar,x2ybr,xy2br,x-ege,xegvy,y-ege,yegvx"


def letter(originals: Originals) -> "pd.DataFrame":
    """Prepare letter-recognition.data, which has no column names: the letter moves to the end."""
    frame = originals.frame("letter-recognition.data", header=None, names=["letter", *_LETTER.split(",")])
    return frame[[*_LETTER.split(","), "letter"]]


_ADULT = (
    "age,workclass,fnlwgt,education,education-num,marital-status,occupation,relationship,race,sex,capital-gain,"
    "capital-loss,hours-per-week,native-country,income"
)


def adult(originals: Originals) -> "pd.DataFrame":
    """Prepare adult.data and adult.test (its labels end in a full stop); "?" is kept, and ``split`` names the file."""
    import pandas as pd

    how: dict[str, Any] = {
        "header": None,
        "names": _ADULT.split(","),
        "skipinitialspace": True,
        "keep_default_na": False,
    }
    train = originals.frame("adult.data", **how)
    # The first line of the test rows is a remark.
    test = originals.frame("adult.test", skiprows=1, **how)
    test["income"] = test["income"].str.rstrip(".")
    frame = pd.concat([train, test], ignore_index=True)
    frame.insert(0, "split", ["train"] * len(train) + ["test"] * len(test))
    return frame


def conductivity(originals: Originals) -> "pd.DataFrame":
    """Prepare train.csv, unchanged: the target critical_temp is its last column."""
    return originals.frame("train.csv", dtype=str, keep_default_na=False)


def sensorless(originals: Originals) -> "pd.DataFrame":
    """Prepare Sensorless_drive_diagnosis.txt: 48 features, and the class, renumbered from 0 as in sensorless_subset."""
    values = originals.frame("Sensorless_drive_diagnosis.txt", sep=r"\s+", header=None).to_numpy()
    return _numbered(values[:, :-1], values[:, -1].astype(int) - 1, "class")


def sensorless_subset(originals: Originals) -> "pd.DataFrame":
    """Prepare the arrays X.npy, with 48 features, and Y.npy, with classes numbered from 0."""
    inputs, target = (np.load(io.BytesIO(originals[f"{name}.npy"]), allow_pickle=False) for name in "XY")
    return _numbered(inputs, target.ravel().astype(int), "class")


def har(originals: Originals) -> "pd.DataFrame":
    """Prepare X_train.txt, y_train.txt and the test files: 561 features, and the activity's number."""
    import pandas as pd

    how: dict[str, Any] = {"sep": r"\s+", "header": None}
    inputs, target = (
        pd.concat([originals.frame(f"{name}_{part}.txt", **how) for part in ("train", "test")]).to_numpy()
        for name in "Xy"
    )
    return _numbered(inputs, target.ravel().astype(int), "class")


def wisdm_har(originals: Originals) -> "pd.DataFrame":
    """Prepare WISDM_ar_v1.1_transformed.arff: columns are named as in its header, and "?" becomes an empty cell."""
    import pandas as pd

    text = originals.text("WISDM_ar_v1.1_transformed.arff")
    head, _, data = text.partition("@data")
    names = re.findall(r'@attribute\s+"?([^"\s{]+)"?', head, re.IGNORECASE)
    return pd.read_csv(io.StringIO(data), header=None, names=names, na_values="?", skipinitialspace=True)


def mnist(originals: Originals) -> Arrays:
    """Prepare the four idx files: images in rows of 784 bytes, and labels; the 60,000 training samples first."""
    parts = []
    for name in ("images-idx3", "labels-idx1"):
        data = [originals[f"{part}-{name}-ubyte"] for part in ("train", "t10k")]
        # The fourth byte is the number of dimensions; the size of each dimension follows in four bytes.
        parts.append(np.concatenate([np.frombuffer(each, np.uint8, offset=4 + 4 * each[3]) for each in data]))
    return {"x": parts[0].reshape(-1, 784), "y": parts[1]}


# --- links ------------------------------------------------------------------------------------------------------------


def intel_connectivity(originals: Originals) -> "pd.DataFrame":
    """Prepare connectivity.txt as a sorted table; the first number of a line is taken as the sender."""
    import pandas as pd

    rows = [line.split() for line in originals.text("connectivity.txt").splitlines()]
    # Skip incomplete lines: "0 31" has no value.
    found = [(int(a), int(b), float(f"{float(p):.12g}")) for a, b, p in (row for row in rows if len(row) == 3)]
    return pd.DataFrame(sorted(found), columns=["sender", "receiver", "prob"])


def intel_mote_locs(originals: Originals) -> "pd.DataFrame":
    """Prepare mote_locs.txt, unchanged."""
    return originals.frame("mote_locs.txt", sep=r"\s+", header=None, names=["mote", "x_m", "y_m"])


def iotlab_grenoble_k7(originals: Originals) -> "pd.DataFrame":
    """Prepare grenoble.k7, without its first line, which is JSON."""
    return originals.frame("grenoble.k7", skiprows=1, dtype=str, keep_default_na=False)


def _ulb(originals: Originals, kind: str, names: Sequence[str]) -> "pd.DataFrame":
    """Return the three files of a kind (N or R) as one table of text, with a column for the file's number."""
    import pandas as pd

    rows: list[list[str]] = []
    for part in "123":
        # Remove no-break spaces, which separate thousands in sequence numbers, because `split` would split at them.
        text = originals[f"{kind}{part}.txt"].decode("latin-1").replace("\xa0", "").replace(",", ".")
        rows += [[part, *cells] for line in text.splitlines() if (cells := line.split())]
    return pd.DataFrame(rows, columns=["part", *names])


def ulb_library1_links(originals: Originals) -> "pd.DataFrame":
    """Prepare N1.txt to N3.txt, the receptions; lqi_corrected is as in the README, rssi_dbm as for a CC2420."""
    names = ("timestamp_ms", "packet_in_seq", "seq", "node", "src", "lqi", "rssi")
    frame = _ulb(originals, "N", names).astype("int64")
    frame["lqi_corrected"] = np.where(frame["lqi"] > 128, 383 - frame["lqi"], 128 - frame["lqi"])
    frame["rssi_dbm"] = frame["rssi"] - 256 - 45
    return frame


def ulb_library1_readings(originals: Originals) -> "pd.DataFrame":
    """Prepare R1.txt to R3.txt, the motes' measurements; decimal commas become points."""
    names = ("timestamp_ms", "node", "seq", "temp_int", "volt", "humidity", "temperature", "par", "tsr")
    whole = dict.fromkeys(("part", *names[:3]), "int64")
    return _ulb(originals, "R", names).astype(dict.fromkeys(names, "float64") | whole)


def mahimahi_cellular(originals: Originals) -> Arrays:
    """Prepare the traces NAME.up and NAME.down as arrays of differences between successive times (ms)."""
    times = {name: np.array(originals.text(name).split(), np.int64) for name in originals.names("*.up", "*.down")}
    return {name: np.diff(each, prepend=0).astype(np.int32) for name, each in times.items()}
