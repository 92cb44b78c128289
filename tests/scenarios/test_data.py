import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from netsim.errors import BadInput
from netsim.scenarios.data.choice import Columns
from netsim.scenarios.data.tables import AgentData, Table, deal, load_table, scale_unit, synthetic
from tests.parts import every

real_data = pytest.mark.skipif("NETSIM_DATA" not in os.environ, reason="NETSIM_DATA is not set")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NETSIM_DATA", str(tmp_path))
    return tmp_path


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / f"{name}.csv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    return path


def refusal(name: str, target: str | None = None) -> str:
    with pytest.raises(BadInput) as caught:
        load_table(name, Columns(target=target))
    message = str(caught.value)
    assert "\n" not in message
    return message


def table(samples: int = 20, width: int = 2) -> Table:
    """Return a table in which the inputs of each row identify the sample."""
    names = tuple(f"x{j}" for j in range(width))
    index = np.arange(samples, dtype=np.float64)
    return Table("counting", np.repeat(index[:, None], width, axis=1), 10.0 * index, names, "y")


def test_load_splits_off_the_last_column(folder: Path) -> None:
    write(folder, "small", "a,b,c\n1,2.5,-3\n4,5,1e-3\n")
    loaded = load_table("small")
    assert loaded.inputs.tolist() == [[1.0, 2.5], [4.0, 5.0]]
    assert loaded.target.tolist() == [-3.0, 1e-3]
    assert (loaded.name, loaded.input_columns, loaded.target_column) == ("small", ("a", "b"), "c")


def test_load_with_another_target(folder: Path) -> None:
    write(folder, "small", "a,b,c\n1,2,3\n4,5,6\n")
    loaded = load_table("small", Columns(target="b"))
    assert loaded.inputs.tolist() == [[1.0, 3.0], [4.0, 6.0]]
    assert loaded.target.tolist() == [2.0, 5.0]
    assert (loaded.input_columns, loaded.target_column) == (("a", "c"), "b")


def test_load_leaves_out_known_time_columns_and_keeps_missing_codes(folder: Path) -> None:
    write(folder, "airquality", "datetime,hour,y\n2004-03-10 18:00:00,0.75,-200\n2004-03-11 00:00,-200,3\n")
    loaded = load_table("airquality")
    assert loaded.input_columns == ("hour",)
    assert loaded.inputs.tolist() == [[0.75], [-200.0]]
    assert loaded.target.tolist() == [-200.0, 3.0]
    write(folder, "energy", "date,rv1,rv2,y\n2016-01-11,1,2,3\n")
    assert load_table("energy").input_columns == ("rv1", "rv2")


def test_load_reads_without_a_newline_at_the_end(folder: Path) -> None:
    write(folder, "small", "a,b\n1,2")
    assert load_table("small").target.tolist() == [2.0]


def test_no_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NETSIM_DATA", raising=False)
    wanted = "must be a folder that holds tomshardware.csv.gz (or .csv, .npz, .parquet; public source: UCI id 248, "
    assert refusal("tomshardware").startswith(f"NETSIM_DATA is not set: {wanted}")
    monkeypatch.setenv("NETSIM_DATA", "")
    assert refusal("tomshardware").startswith("NETSIM_DATA is not set: ")
    monkeypatch.setenv("NETSIM_DATA", str(tmp_path / "nowhere"))
    assert f"nowhere' is not a folder: {wanted}" in refusal("tomshardware")


def test_missing_file(folder: Path) -> None:
    assert refusal("energy").endswith(
        "must be a folder that holds energy.csv.gz (or .csv, .npz, .parquet; public source: UCI id 374); "
        "it holds no such file; data may also be the path of a file; netsim data get energy fetches it"
    )
    write(folder, "airquality", "a,b\n1,2\n")
    write(folder, "banana", "a,b\n1,2\n")
    message = refusal("air_quality")
    assert "(or .csv, .npz, .parquet) (did you mean 'airquality'?); it holds airquality, banana" in message
    write(folder, "enery", "a,b\n1,2\n")
    assert "did you mean" not in refusal("energy")  # A known name must not be reported as a typing error.
    assert "(did you mean 'banana'?)" in refusal("banan.csv.gz")
    assert f"data = '../{folder.name}/banana': must be a file that ends in" in refusal(f"../{folder.name}/banana")


def test_missing_column(folder: Path) -> None:
    write(folder, "small", "height,weight\n1,2\n")
    assert refusal("small", "wieght").startswith("target = 'wieght': must be a column of ")
    assert refusal("small", "wieght").endswith("small.csv.gz (did you mean 'weight'?)")
    assert refusal("small", "zzz").endswith("small.csv.gz: height, weight")


@every(
    ("text", "fault"),
    [
        ("a,b\n1,2\nx,4\n", "column 'a', data row 2 = 'x': must be a finite number (1 such rows)"),
        ("a,b\n1,?\n3,?\n", "column 'b', data row 1 = '?': must be a finite number (2 such rows)"),
        ("a,b\n1,2\n3,\n", "column 'b', data row 2 = nan: must be a finite number"),
        ("a,b\n1,2\n3,NaN\n", "column 'b', data row 2 = 'NaN': must be a finite number"),
        ("a,b\n-inf,2\n3,4\n", "column 'a', data row 1 = -inf: must be a finite number"),
        ("a,b\n1,2\n3\n", "column 'b', data row 2 = nan: must be a finite number"),
        ("a,b\n", "has no row: must be a table"),
        ("", "is no table: No columns to parse from file"),
        ("a,b\n1,2\n3,4,5\n", "is no table: Error tokenizing data"),
        (
            "a,b\n1,2,3\n4,5,6\n",
            "line 2: must have as many cells as there are names; it has 3 cells under the 2 names of line 1; R adds",
        ),
        ("a;b\n1,5;2\n3.5;4\n", "line 2: column 'a', data row 1 = '1,5': must be a finite number (1 such rows)"),
        ("# of ours\n\na,b\n1,2\n\nx,4\n", "line 6: column 'a', data row 2 = 'x': must be a finite number"),
        ("a,a\n1,2\n", "line 1: must have one column 'a'; it has 2"),
        ("a,,b\n1,2,3\n", "line 1: must have a name for its column 2, which is not empty"),
        ("5.1,3.5,0\n4.9,3.0,1\n", "line 1: must name the columns; 5.1, 3.5, 0 looks like a row of data"),
        ("T,2,8\nI,5,12\nT,4,11\n", "line 1: must name the columns; T, 2, 8 looks like a row of data"),
        ("x,s\nb,s\nx,y\n", "line 1: must name the columns; x, s looks like a row of data"),
        ("a\n1\n", "has 1 usable columns: must have an input and a target at least"),
    ],
)
def test_bad_tables(folder: Path, text: str, fault: str) -> None:
    path = write(folder, "small", text)
    message = refusal("small")
    assert fault in message
    assert str(path) in message


def test_damaged_files(folder: Path) -> None:
    path = write(folder, "small", "a,b\n" + "".join(f"{i},{i * i}\n" for i in range(500)))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert "small.csv.gz cannot be read: Compressed file ended before" in refusal("small")
    path.write_bytes(whole[:300] + bytes(50) + whole[350:])
    assert "small.csv.gz cannot be read: " in refusal("small")
    path.write_bytes(b"a,b\n1,2\n")
    assert "small.csv.gz cannot be read: Not a gzipped file" in refusal("small")
    path.write_bytes(b"")
    assert "small.csv.gz is no table: No columns" in refusal("small")
    path.write_bytes(gzip.compress(b"a,b\n\xff\xfe,2\n"))
    assert "small.csv.gz, line 2: must be text in UTF-8; it has a byte 0xff" in refusal("small")
    path.unlink()
    path.mkdir()
    assert "small.csv.gz cannot be read: " in refusal("small")


def test_scaling_to_the_unit_interval() -> None:
    inputs = np.array([[-2.0, 7.0], [2.0, 7.0], [0.0, 7.0]])
    raw = Table("t", inputs, np.array([5.0, 1.0, 2.0]), ("a", "b"), "y")
    scaled = scale_unit(raw)
    assert scaled.inputs.tolist() == [[0.0, 0.0], [1.0, 0.0], [0.5, 0.0]]
    assert scaled.target.tolist() == [1.0, 0.0, 0.25]
    assert scaled.input_columns == raw.input_columns
    assert raw.target.tolist() == [5.0, 1.0, 2.0]


def parts(shares: list[AgentData]) -> list[float]:
    return sorted(float(v) for s in shares for v in (*s.train_target, *s.test_target))


def test_deal_gives_each_sample_to_one_agent() -> None:
    shares = deal(table(23), 5, seed=0)
    assert parts(shares) == [10.0 * i for i in range(23)]
    sizes = [len(s.train_target) + len(s.test_target) for s in shares]
    assert sorted(sizes) == [4, 4, 5, 5, 5]
    for share in shares:
        assert np.array_equal(10.0 * share.train_inputs[:, 0], share.train_target)
        assert np.array_equal(10.0 * share.test_inputs[:, 1], share.test_target)


def test_deal_trains_with_its_share() -> None:
    assert [len(s.train_target) for s in deal(table(100), 5, seed=0)] == [14] * 5
    assert [len(s.train_target) for s in deal(table(100), 5, train_share=0.25, seed=0)] == [5] * 5
    for share in (0.01, 0.99):
        for agent in deal(table(10), 5, train_share=share, seed=0):
            assert (len(agent.train_target), len(agent.test_target)) == (1, 1)


def test_deal_shuffles_by_its_seed() -> None:
    first, again, other = (deal(table(40), 2, seed=seed)[0].train_target for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert not np.array_equal(np.sort(first), first)


def test_deal_of_some_rows_takes_them_at_random() -> None:
    kept = parts(deal(table(1000), 2, seed=0, rows=100))
    assert len(set(kept)) == 100
    assert max(kept) > 5000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"agents": 11}, "agents = 11: must be at most 10, for 2 samples each of 20"),
        ({"agents": 5, "rows": 9}, "agents = 5: must be at most 4, for 2 samples each of 9"),
        ({"agents": 0}, "agents = 0: must be a whole number >= 1"),
        ({"rows": 21}, "rows = 21: must be a whole number from 1 to 20"),
        ({"train_share": 0}, "train_share = 0: must be between 0 and 1"),
        ({"train_share": 1.0}, "train_share = 1.0: must be between 0 and 1"),
        ({"train_share": 7}, "train_share = 7: must be a probability in [0, 1]"),
        ({"seed": 0.5}, "seed = 0.5: must be a whole number >= 0"),
    ],
)
def test_deal_refuses(options: dict[str, float], message: str) -> None:
    with pytest.raises(BadInput) as caught:
        deal(table(), **{"agents": 2, "seed": 0, **options})  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_synthetic_set() -> None:
    shares = synthetic(6, seed=0)
    sizes = [len(s.train_target) + len(s.test_target) for s in shares]
    assert all(4000 <= size <= 6000 for size in sizes)
    assert len(set(sizes)) > 1
    for share, size in zip(shares, sizes, strict=True):
        assert len(share.train_target) == round(0.7 * size)
        assert share.train_inputs.shape[1] == share.test_inputs.shape[1] == 5
    inputs = np.concatenate([x for s in shares for x in (s.train_inputs, s.test_inputs)])
    target = np.concatenate([y for s in shares for y in (s.train_target, s.test_target)])
    for column in (*inputs.T, target):
        assert (column.min(), column.max()) == (0.0, 1.0)
    spans = [float(np.ptp(s.train_target)) for s in shares]
    assert min(spans) < 1.0  # All agents share one scaling, so no single agent's range fills the whole interval.


def test_synthetic_noise_beside_the_signal() -> None:
    # Scaling hides the noise's variance of 0.1, but not its ratio to the signal's. The noise is estimated as the
    # residual of a cubic fit, which matches this smooth signal almost exactly; other draws of the formula give the
    # expected value.
    def cubic(x: NDArray[np.float64]) -> NDArray[np.float64]:
        ones = np.column_stack([x, np.ones(len(x))])
        pairs = np.einsum("ni,nj->nij", ones, ones)[:, *np.triu_indices(6)]
        products: NDArray[np.float64] = np.einsum("ni,nj->nij", pairs, ones)
        return products.reshape(len(x), -1)

    found, expected = [], []
    for seed in range(30):
        share = synthetic(1, seed=seed, samples=(2000, 2000))[0]
        features = cubic(share.train_inputs)
        fit = features @ np.linalg.lstsq(features, share.train_target)[0]
        found.append(np.var(share.train_target - fit) / np.var(fit))
        rng = np.random.default_rng(seed)
        x, centres, weights = rng.normal(size=(2000, 5)), rng.normal(size=(50, 5)), rng.uniform(size=50)
        distances = np.sum((x[:, None] - centres) ** 2, axis=2)
        expected.append(0.1 / np.var(np.exp(-distances / 50) @ weights))
    assert np.median(found) == pytest.approx(np.median(expected), rel=0.2)


def test_synthetic_draws_by_its_seed_and_agent_by_agent() -> None:
    def first_sizes(agents: int, seed: int) -> list[int]:
        return [len(s.train_target) for s in synthetic(agents, seed=seed, samples=(10, 1000))][:3]

    assert first_sizes(3, 1) == first_sizes(5, 1)
    assert first_sizes(3, 1) != first_sizes(3, 2)
    assert np.array_equal(synthetic(2, seed=1)[1].test_target, synthetic(2, seed=1)[1].test_target)


def test_synthetic_refuses() -> None:
    with pytest.raises(BadInput, match=r"agents = 0: must be a whole number >= 1"):
        synthetic(0, seed=0)
    with pytest.raises(BadInput, match=r"samples\[0\] = 1: must be a whole number >= 2"):
        synthetic(2, seed=0, samples=(1, 5))
    with pytest.raises(BadInput, match=r"samples\[1\] = 4: must be a whole number >= 5"):
        synthetic(2, seed=0, samples=(5, 4))
    with pytest.raises(BadInput, match=r"samples = 5: must be a pair \(smallest, largest\)"):
        synthetic(2, seed=0, samples=5)  # type: ignore[arg-type]


@real_data
@pytest.mark.parametrize(
    ("name", "samples", "inputs", "target"),
    [
        ("airquality", 9357, 13, "PT08.S5(O3)"),
        ("energy", 19735, 27, "Appliances"),
        ("tomshardware", 28179, 96, "target"),
        ("banana", 5300, 2, "label"),
    ],
)
def test_real_tables(name: str, samples: int, inputs: int, target: str) -> None:
    loaded = load_table(name)
    assert loaded.inputs.shape == (samples, inputs)
    assert loaded.target.shape == (samples,)
    assert loaded.target_column == target
    scaled = scale_unit(loaded)
    assert (scaled.inputs.min(), scaled.inputs.max()) == (0.0, 1.0)


@real_data
def test_real_table_of_text_is_refused() -> None:
    assert "column 'workclass', data row 1 = 'State-gov'" in refusal("adult")


@real_data
def test_airquality_keeps_its_missing_codes() -> None:
    assert np.count_nonzero(load_table("airquality").target == -200.0) == 366
