"""Read graphs from matrices in files of numpy, scipy and the Matrix Market, and make graphs from arrays."""

import io
import math
import re
import warnings
import zipfile
from collections.abc import Sequence
from typing import Any

import networkx as nx
import numpy as np

from netsim.errors import BadInput
from netsim.files.parsed_graph import Graph, ParsedGraph, check_fits, refuse, unequal_weights

__all__ = ["of_matrix", "of_matrix_market", "of_npy", "of_npz"]

# Limit of the uncompressed size of the arrays in a file, in bytes.
_MOST_BYTES = 2**28
# A number as the Matrix Market writes it, in ASCII.
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def of_matrix_market(where: str, text: str) -> ParsedGraph:
    """Return the graph of a matrix in the exchange format of the Matrix Market (math.nist.gov/MatrixMarket)."""
    from scipy.io import mmread

    header, *lines = text.split("\n")
    kept = [(line, words.split()) for line, words in enumerate(lines, 2) if words.strip() and not words.startswith("%")]
    for line, words in kept:
        if not all(map(_NUMBER.fullmatch, words)):
            raise refuse(where, "numbers", line)
    if not kept:
        raise refuse(where, "a matrix: a line of its sizes, and its entries; it has neither")
    sizes, given = [int(word) for word in kept[0][1]], kept[1:]
    _check_shape(where, sizes[:2])
    kind = header.lower().split()
    if "coordinate" in kind and len(sizes) == 3 and len(given) != sizes[2]:
        raise BadInput(f"{where}: must have {sizes[2]:,} entries; it has {len(given):,}")
    # Count the numbers, because scipy would silently replace missing numbers by zeros.
    count, needed = sum(len(words) for _, words in given), sizes[0] * (sizes[0] + 1) // 2
    if "array" in kind and "symmetric" in kind and count != needed:
        raise BadInput(f"{where}: must have {needed} numbers for {sizes[0]} rows of a symmetric matrix; it has {count}")
    # scipy's reader is compiled: text that is no number, or a blank at the end, would end Python.
    plain = "\n".join([" ".join(header.split()), *(" ".join(words) for _, words in kept), ""])
    with warnings.catch_warnings():
        # Newer versions of scipy warn that the class of the result will change, which does not matter for reading its
        # entries.
        warnings.simplefilter("ignore")
        return _of_sparse(where, mmread(io.BytesIO(plain.encode())))


def of_npy(where: str, data: bytes) -> ParsedGraph:
    """Return the graph of a matrix in an ``.npy`` file of numpy."""
    file = io.BytesIO(data)
    version = np.lib.format.read_magic(file)
    read: Any = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if read is not None:
        # Check the size in the header first: numpy would allocate the array before it reads the numbers.
        shape, _, kind = read(file)
        if not kind.hasobject and math.prod(shape) * kind.itemsize > len(data) - file.tell():
            raise BadInput(f"{where}: must have the {math.prod(shape):,} numbers of its shape; it is cut short")
    return of_matrix(where, np.load(io.BytesIO(data), allow_pickle=False))


def of_npz(where: str, data: bytes) -> ParsedGraph:
    """Return the graph of the only matrix in an ``.npz`` file of numpy or scipy.sparse."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        size = sum(each.file_size for each in archive.infolist())
    if size > _MOST_BYTES:
        raise BadInput(f"{where}: must be at most {_MOST_BYTES:,} bytes, uncompressed")
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        names = list(file.files)
        if {"format", "shape", "data"} <= set(names):
            from scipy.sparse import load_npz

            _check_shape(where, file["shape"].tolist())
            return _of_sparse(where, load_npz(io.BytesIO(data)))
        if len(names) != 1:
            raise BadInput(f"{where}: must hold one matrix; it holds {', '.join(names[:6]) or 'nothing'}")
        return of_matrix(where, file[names[0]])


def _check_shape(where: str, shape: Sequence[int]) -> None:
    if len(shape) != 2 or shape[0] != shape[1]:
        raise BadInput(f"{where}: must be a square matrix; its shape is {str(tuple(shape))[:80]}")
    check_fits(where, shape[0])


def _of_sparse(where: str, matrix: Any) -> ParsedGraph:
    from scipy.sparse import coo_array

    if not hasattr(matrix, "tocoo"):
        return of_matrix(where, matrix)
    found = coo_array(matrix)
    found.sum_duplicates()
    return _of_entries(where, int(found.shape[0]), found.row, found.col, found.data)


def of_matrix(where: str, matrix: Any, labels: Sequence[str] | None = None) -> ParsedGraph:
    """Return the graph of a square matrix, with an edge for each nonzero element."""
    array = np.asarray(matrix)
    _check_shape(where, array.shape)
    rows, columns = np.nonzero(array)
    return _of_entries(where, len(array), rows, columns, array[rows, columns], labels)


def _of_entries(
    where: str, count: int, rows: Any, columns: Any, values: Any, labels: Sequence[str] | None = None
) -> ParsedGraph:
    if values.dtype.kind not in "biuf":
        raise BadInput(f"{where}: must be a matrix of numbers; it is of {values.dtype}")
    bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if len(bad):
        at = int(rows[bad[0]]), int(columns[bad[0]])
        raise BadInput(f"{where}: must be a matrix of finite numbers >= 0; {at} is {values[bad[0]]}")
    graph: Graph = nx.Graph()
    graph.add_nodes_from(range(count) if labels is None else labels)
    names = list(graph)
    plain = bool((values == 1).all())
    entries = [each for each in zip(rows.tolist(), columns.tolist(), values.tolist(), strict=True) if each[2]]
    for row, column, value in entries:
        graph.add_edge(names[row], names[column], **({} if plain else {"weight": float(value)}))
    return ParsedGraph("a matrix", graph, unequal_weights(entries))
