import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, csr_matrix
from torch import Tensor

from lupi._internal.sparse_rows import CodedRows
from lupi.data import Annotations, Batch, SparseRows, distinct

properties = settings(deadline=None, max_examples=60)  # the first call of a run is slow
# Sums of these are exact in float32. Few of them, so that rows repeat.
NUMBERS = st.sampled_from([0.0, -0.0, 1.0, -2.0, 0.5])


@st.composite
def csr_matrices(draw, min_rows=0):
    """Any csr matrix: empty rows, explicit zeros, entries that repeat, in any order, no columns."""
    width = draw(st.integers(0, 5))
    entries = st.lists(st.tuples(st.integers(0, width - 1), NUMBERS), max_size=6) if width else st.just([])
    rows = draw(st.lists(entries, min_size=min_rows, max_size=8))
    stored = [entry for row in rows for entry in row]
    return csr_array(
        (
            np.array([value for _, value in stored], dtype=draw(st.sampled_from([np.float32, np.float64]))),
            np.array([column for column, _ in stored], dtype=np.int32),
            np.cumsum([0, *map(len, rows)], dtype=np.int32),
        ),
        shape=(len(rows), width),
    )


@st.composite
def annotations(draw, min_size=0):
    """Ragged annotations of up to six examples, in any order, some examples without one."""
    examples = draw(st.integers(1, 6))
    row = draw(st.lists(st.integers(0, examples - 1), min_size=min_size, max_size=20) | st.just(list(range(examples))))
    n, width = len(row), draw(st.integers(0, 3))
    a = torch.arange(n * width, dtype=torch.float32).reshape(n, width) % 5
    return Annotations(
        x=torch.arange(examples * 2, dtype=torch.float32).reshape(examples, 2) + 100,
        row=torch.tensor(row, dtype=torch.int64),
        a=SparseRows.from_matrix(csr_array(a.numpy())) if draw(st.booleans()) else a,
        y=torch.arange(n),
        annotator=torch.arange(n) // 2 if draw(st.booleans()) else None,
    )


def dense(a):
    return a if isinstance(a, Tensor) else a[torch.arange(a.shape[0])]


def naive(data):
    """The training set as Python lists: one (x, a, y) per annotation."""
    x, a = data.x.tolist(), dense(data.a).tolist()
    return [(x[r], a[i], y) for i, (r, y) in enumerate(zip(data.row.tolist(), data.y.tolist(), strict=True))]


def flat(batch):
    """The annotations of a batch as Python lists."""
    x = batch.x.tolist()
    return [(x[r], a, y) for r, a, y in zip(batch.row.tolist(), batch.a.tolist(), batch.y.tolist(), strict=True)]


# ---------------------------------------------------------------- batches


@properties
@given(annotations(), st.data())
def test_by_annotation_holds_the_drawn_annotations_and_each_of_their_examples_once(data, draws):
    index = draws.draw(st.permutations(range(len(data))))[: draws.draw(st.integers(0, len(data)))]
    batch = data.by_annotation(torch.tensor(index, dtype=torch.int64))
    everything = naive(data)
    assert flat(batch) == [everything[i] for i in index]
    examples = {data.row[i].item() for i in index}
    assert sorted(batch.x.tolist()) == [data.x[example].tolist() for example in sorted(examples)]


@properties
@given(annotations(min_size=1), st.data())
def test_by_annotation_may_draw_an_annotation_twice(data, draws):
    index = draws.draw(st.lists(st.integers(0, len(data) - 1), max_size=10))
    everything = naive(data)
    assert flat(data.by_annotation(torch.tensor(index, dtype=torch.int64))) == [everything[i] for i in index]


@properties
@given(annotations(), st.data())
def test_by_example_holds_every_annotation_of_the_drawn_examples_and_nothing_else(data, draws):
    count = data.x.shape[0]
    examples = draws.draw(st.permutations(range(count)))[: draws.draw(st.integers(0, count))]
    batch = data.by_example(torch.tensor(examples, dtype=torch.int64))
    assert batch.x.tolist() == [data.x[example].tolist() for example in examples]
    everything, row = naive(data), data.row.tolist()
    positions = [i for example in examples for i in range(len(row)) if row[i] == example]
    assert flat(batch) == [everything[i] for i in positions]
    assert batch.row.tolist() == [k for k, example in enumerate(examples) for _ in range(row.count(example))]


@properties
@given(annotations())
def test_what_is_known_of_the_examples(data):
    row, examples = data.row.tolist(), range(data.x.shape[0])
    assert len(data) == len(row)
    assert data.count.tolist() == [row.count(example) for example in examples]
    assert data.annotated.tolist() == sorted(set(row))
    assert data.order.tolist() == [i for example in examples for i in range(len(row)) if row[i] == example]
    assert data.one_to_one == (row == list(examples))


def test_the_trunk_sees_an_example_once_however_many_labels_it_has():
    data = Annotations(torch.eye(3), torch.tensor([2] * 50 + [0]), torch.ones(51, 1), torch.arange(51))
    seen = []
    trunk = torch.nn.Identity()
    trunk.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0].tolist()))
    for batch in (data.by_annotation(torch.arange(51)), data.by_example(torch.tensor([0, 2]))):
        assert trunk(batch.x)[batch.row].shape == (51, 3)
    assert seen == [[[1, 0, 0], [0, 0, 1]]] * 2


def test_batch_moves_whole():
    batch = Batch(torch.ones(1, 2), torch.zeros(3, dtype=torch.int64), torch.ones(3, 1), torch.ones(3)).to("meta")
    assert [part.device.type for part in batch[:4]] == ["meta"] * 4
    assert not batch.one_to_one
    assert batch._replace(one_to_one=True).to("meta").one_to_one


@properties
@given(annotations(min_size=1), st.data())
def test_spread_repeats_what_an_example_has_for_its_annotations(data, draws):
    index = torch.tensor(draws.draw(st.lists(st.integers(0, len(data) - 1), min_size=1)))
    for batch in (data.by_annotation(index), data.by_example(data.annotated)):
        values = torch.rand(batch.x.shape[0], 2)
        assert torch.equal(batch.spread(values), values[batch.row])
        assert not batch.one_to_one or batch.spread(values) is values


@pytest.mark.parametrize("row", [[0, 1, 2, 3], [0, 1, 1, 3], [1, 0, 2, 3]])
def test_a_batch_says_whether_its_annotations_are_one_to_one(row):
    data = Annotations(torch.eye(4), torch.tensor(row), torch.ones(4, 1), torch.arange(4))
    for batch in (data.by_annotation(torch.tensor([3, 1])), data.by_example(torch.tensor([3, 1]))):
        assert batch.one_to_one == (row == [0, 1, 2, 3])


@pytest.mark.parametrize("width", [0, 1, 4, 6])
def test_zeros_behind_rows_are_not_drawn(width):
    a = torch.rand(4, width) + 1
    data, index = Annotations(torch.eye(4), torch.arange(4), a, torch.arange(4)), torch.tensor([3, 0, 3])
    vars(data)["rows_of_a"] = torch.nn.functional.pad(a, (0, -width % 4))
    assert data.rows_of_a.shape[1] % 4 == 0
    assert torch.equal(data.by_annotation(index).a, a[index])
    assert torch.equal(data.by_example(index).a, a[index])


def test_privileged_information_may_have_any_shape():
    for a in (torch.rand(4), torch.rand(4, 2, 3)):
        data, index = Annotations(torch.eye(4), torch.arange(4), a, torch.arange(4)), torch.tensor([3, 0, 3])
        assert torch.equal(data.by_annotation(index).a, a[index])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("dense", [True, False])
def test_privileged_information_is_drawn_alike_on_a_gpu(small, dense, monkeypatch):
    monkeypatch.setattr("lupi.data.MAX_DENSE_VALUES", 24 if small else 23)
    a = SparseRows.from_matrix(csr_array([[0, 1.0, 0], [2.0, 0, 3.0], [0, 0, 0], [1.0, 1.0, 1.0]]))
    a = a.dense() if dense else a
    data, index = Annotations(torch.eye(4), torch.arange(4), a, torch.arange(4)), torch.tensor([3, 0, 3])
    on_gpu = data.to("cuda")
    assert on_gpu.rows_of_a.shape == (4, 4 if small else 3)
    assert isinstance(on_gpu.rows_of_a, torch.Tensor) == (small or dense)
    assert type(on_gpu.a) is type(a)  # what methods look at stays what it was
    assert torch.equal(on_gpu.by_annotation(index.cuda()).a.cpu(), data.by_annotation(index).a)


# ---------------------------------------------------------------- annotations


@properties
@given(annotations(min_size=1), st.data())
def test_take_selects_annotations_and_shares_the_examples(data, draws):
    index = draws.draw(st.lists(st.integers(0, len(data) - 1), max_size=10))
    taken = data.take(torch.tensor(index, dtype=torch.int64))
    everything = naive(data)
    assert naive(taken) == [everything[i] for i in index]
    assert taken.x is data.x
    assert type(taken.a) is type(data.a)
    assert taken.annotator is None if data.annotator is None else taken.annotator.tolist() == [i // 2 for i in index]


@properties
@given(annotations(), st.integers(0, 3))
def test_with_privileged_appends_columns(data, width):
    more = torch.randn(len(data), width, generator=torch.Generator().manual_seed(width))
    longer = data.with_privileged(more)
    np.testing.assert_array_equal(dense(longer.a), np.hstack([dense(data.a), more]))
    assert longer.a.shape == (len(data), data.a.shape[1] + width)
    assert type(longer.a) is type(data.a)
    for part in ("x", "row", "y", "annotator"):
        assert getattr(longer, part) is getattr(data, part)


@properties
@given(annotations())
def test_without_privileged_keeps_who_gave_the_labels(data):
    shorter = data.without_privileged()
    assert shorter.a.shape == (len(data), 0)
    for part in ("x", "row", "y", "annotator"):
        assert getattr(shorter, part) is getattr(data, part)


@properties
@given(annotations(min_size=1), st.data())
def test_appended_columns_are_drawn_with_their_annotation(data, draws):
    longer = data.with_privileged(torch.arange(len(data)).float()[:, None])
    index = torch.tensor(draws.draw(st.lists(st.integers(0, len(data) - 1), max_size=10)), dtype=torch.int64)
    assert longer.take(index).by_annotation(torch.arange(len(index))).a[:, -1].tolist() == index.tolist()


@pytest.mark.parametrize("sparse", [False, True])
def test_moves_what_lies_in_memory(sparse):
    # No annotation: the check of `row` would need to read it, and nothing can be read from "meta".
    a = SparseRows.from_matrix(csr_array((0, 3))) if sparse else torch.ones(0, 3)
    row = torch.ones(0, dtype=torch.int64)
    moved = Annotations(torch.ones(2, 3), row, a, torch.ones(0), annotator=row).to("meta")
    tensors = (moved.a.index, moved.a.value) if sparse else (moved.a,)
    assert {part.device.type for part in (moved.x, moved.row, moved.y, moved.annotator, *tensors)} == {"meta"}
    source = Source(np.ones((2, 3), np.float32))
    kept = Annotations(source, row, a, torch.ones(0)).to("meta")
    assert kept.x is source
    assert kept.annotator is None
    assert kept.y.device.type == "meta"


@pytest.mark.parametrize(("name", "sparse"), [("a", False), ("a", True), ("y", False), ("annotator", False)])
def test_lengths_must_agree(name, sparse):
    parts = {"a": torch.ones(3, 2), "y": torch.ones(3), "annotator": torch.zeros(3, dtype=torch.int64)}
    parts[name] = parts[name][:2]
    if sparse:
        parts["a"] = SparseRows.from_matrix(csr_array(parts["a"].numpy()))
    with pytest.raises(ValueError, match=f"`{name}`.*3.*2"):
        Annotations(x=torch.ones(4, 1), row=torch.tensor([0, 1, 3]), **parts)


@given(st.integers(1, 4), st.integers(-3, 6))
def test_row_must_be_a_row_of_x(examples, row):
    def make():
        return Annotations(torch.ones(examples, 1), torch.tensor([0, row]), torch.ones(2, 1), torch.ones(2))

    if 0 <= row < examples:
        assert make().row.tolist() == [0, row]
    else:
        with pytest.raises(ValueError, match=f"`row`.*{row}"):
            make()


# ---------------------------------------------------------------- sparse rows


@properties
@given(csr_matrices(), st.data())
def test_sparse_rows_are_the_rows_of_the_matrix(matrix, draws):
    before = matrix.copy()
    rows = SparseRows.from_matrix(matrix)
    assert rows.shape == matrix.shape
    expected = matrix.toarray()
    np.testing.assert_array_equal(rows[torch.arange(matrix.shape[0])], expected)
    index = draws.draw(st.lists(st.integers(0, matrix.shape[0] - 1), max_size=10)) if matrix.shape[0] else []
    index = torch.tensor(index, dtype=torch.int64)
    np.testing.assert_array_equal(rows[index], expected[index.numpy()])
    np.testing.assert_array_equal(dense(rows.take(index)), expected[index.numpy()])
    assert rows.take(index).shape == (len(index), matrix.shape[1])
    for part in ("data", "indices", "indptr"):  # the caller's matrix is as it was
        np.testing.assert_array_equal(getattr(matrix, part), getattr(before, part))


@properties
@given(csr_matrices())
def test_sparse_rows_of_a_tensor(matrix):
    tensor = torch.from_numpy(matrix.toarray())
    rows = SparseRows.from_matrix(tensor)
    assert rows.shape == tensor.shape
    assert dense(rows).dtype == (torch.float64 if tensor.dtype == torch.float64 else torch.float32)
    np.testing.assert_array_equal(dense(rows), tensor)


def test_sparse_rows_take_the_older_scipy_class_and_move():
    matrix = csr_matrix(np.array([[0, 2.0], [1.0, 0]]))
    rows = SparseRows.from_matrix(matrix)
    np.testing.assert_array_equal(dense(rows), matrix.toarray())
    moved = rows.to("meta")
    assert (moved.index.device.type, moved.value.device.type, moved.width) == ("meta", "meta", 2)


def test_sparse_rows_are_drawn_in_the_shape_of_tensors():
    tensor = torch.rand(5, 3)
    a = SparseRows.from_matrix(tensor)
    for index in (torch.tensor([4, 0]), torch.tensor([], dtype=torch.int64), torch.tensor([2], dtype=torch.int32)):
        assert torch.equal(a[index], tensor[index])


def test_labels_of_every_annotator_of_cifar_10h_stay_small():
    labels, annotators, columns = 514_200, 2_571, 2_571 + 20
    rng = np.random.default_rng(0)
    # Who gave the label, and two quantiles: reaction time and number of earlier labels.
    indices = np.stack(
        [rng.integers(annotators, size=labels), *(annotators + 10 * k + rng.integers(10, size=labels) for k in (0, 1))],
        axis=1,
    ).astype(np.int32)
    matrix = csr_array(
        (np.ones(3 * labels, np.float32), indices.ravel(), np.arange(0, 3 * labels + 1, 3, dtype=np.int32)),
        shape=(labels, columns),
    )
    tracemalloc.start()
    rows = SparseRows.from_matrix(matrix)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 150e6  # dense, it would be 5.3e9
    assert sum(part.untyped_storage().nbytes() for part in (rows.index, rows.value)) < 50e6
    data = Annotations(torch.ones(10_000, 1), torch.arange(labels) % 10_000, rows, torch.zeros(labels))
    drawn = torch.from_numpy(rng.choice(labels, size=256, replace=False))
    batch = data.by_annotation(drawn)
    expected = np.zeros((256, columns))
    np.put_along_axis(expected, indices[drawn], 1, axis=1)
    np.testing.assert_array_equal(batch.a, expected)
    assert batch.x.shape[0] == len(set((drawn % 10_000).tolist()))


# ---------------------------------------------------------------- distinct rows


def check_distinct(a, matrix):
    """Compare with numpy's answer for the dense matrix."""
    kinds, count = np.unique(matrix, axis=0, return_counts=True)
    position, weight = distinct(a)
    np.testing.assert_allclose(weight.sum(), 1, rtol=1e-6)
    found = matrix[position.numpy()]
    order = np.lexsort(found.T[::-1])  # as numpy.unique sorts
    np.testing.assert_array_equal(found[order], kinds)
    np.testing.assert_allclose(weight.numpy()[order], count / len(matrix), rtol=1e-6)


@properties
@given(csr_matrices(min_rows=1))
def test_distinct_counts_the_kinds_of_rows(matrix):
    assume(matrix.shape[1] > 0)  # numpy.unique has no answer
    expected = matrix.toarray().astype(np.float32)
    check_distinct(torch.from_numpy(expected), expected)
    check_distinct(SparseRows.from_matrix(matrix), expected)
    check_distinct(SparseRows.from_matrix(torch.from_numpy(expected)), expected)


@properties
@given(csr_matrices(min_rows=1), st.integers(1, 2))
def test_distinct_after_columns_were_appended(matrix, width):
    n = matrix.shape[0]
    more = torch.arange(n * width).reshape(n, width) % 2.0
    data = Annotations(torch.ones(1, 1), torch.zeros(n, dtype=torch.int64), SparseRows.from_matrix(matrix), more)
    check_distinct(data.with_privileged(more).a, np.hstack([matrix.toarray(), more]).astype(np.float32))


@pytest.mark.parametrize("a", [torch.ones(4, 0), SparseRows.from_matrix(csr_array((4, 0)))])
def test_rows_without_columns_are_all_of_one_kind(a):
    position, weight = distinct(a)
    assert (position.tolist(), weight.tolist()) == ([0], [1.0])


def test_distinct_of_many_columns():
    rng = np.random.default_rng(0)
    rows, columns = rng.integers([[300], [5000]], size=(2, 300))
    matrix = csr_array((rng.random(300, dtype=np.float32), (rows, columns)), shape=(300, 5000))
    check_distinct(SparseRows.from_matrix(matrix), matrix.toarray())


# ---------------------------------------------------------------- larger than memory


class Source:
    """Rows of an array that is read where it is drawn."""

    def __init__(self, array):
        self.array = array
        self.shape = array.shape
        self.drawn = []

    def __getitem__(self, index):
        self.drawn.append(index.numel())
        return torch.from_numpy(self.array[index.numpy()])


@pytest.mark.parametrize("one_to_one", [False, True])
def test_inputs_may_be_a_file(tmp_path, one_to_one):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(40, 2, 3)).astype(np.float32)
    file = np.memmap(tmp_path / "x", dtype=np.float32, mode="w+", shape=values.shape)
    file[:] = values
    file.flush()
    source = Source(np.memmap(tmp_path / "x", dtype=np.float32, mode="r", shape=values.shape))
    row = np.arange(40) if one_to_one else rng.integers(40, size=100)
    parts = torch.from_numpy(row), torch.ones(len(row), 1), torch.arange(len(row))
    on_disk, in_memory = Annotations(source, *parts), Annotations(torch.from_numpy(values), *parts)
    index = torch.from_numpy(rng.permutation(len(row))[:9])
    for draw in ("by_annotation", "by_example"):
        *one, kind, _ = getattr(on_disk, draw)(index % 40)
        *other, other_kind, _ = getattr(in_memory, draw)(index % 40)
        assert kind == other_kind == one_to_one
        for drawn, expected in zip(one, other, strict=True):
            assert torch.equal(drawn, expected)
    assert max(source.drawn) <= 9  # nothing else was read
    assert on_disk.take(index).x is source


# ---------------------------------------------------------------- codes


@given(st.integers(1, 9), st.integers(0, 3), st.integers(0, 3), st.integers(0, 2**31 - 1))
def test_coded_rows_are_their_dense_rows(rows, numbers, codes, seed):
    """Numbers are in some columns, every code is a one in a group of columns, and a code may be missing."""
    generator = torch.Generator().manual_seed(seed)
    width = numbers + 3 * codes
    values = torch.randn(rows, numbers, generator=generator).round()  # some are 0
    picked = torch.randint(4, (rows, codes), generator=generator)
    code = torch.where(picked < 3, numbers + 3 * torch.arange(codes) + picked, width)
    coded = CodedRows(values, torch.arange(numbers), code.short(), width)
    expected = torch.zeros(rows, width)
    expected[:, :numbers] = values
    for row in range(rows):
        for group in range(codes):
            if picked[row, group] < 3:
                expected[row, numbers + 3 * group + picked[row, group]] = 1
    index = torch.randint(rows, (5,), generator=generator)
    assert coded.shape == expected.shape
    assert torch.equal(coded[index], expected[index])
    assert torch.equal(torch.from_numpy(coded.matrix().toarray()), expected)
    sparse, usual = coded.sparse(), SparseRows.from_matrix(coded.matrix())
    assert torch.equal(sparse.dense(), expected)
    assert torch.equal(sparse.index, usual.index)
    assert torch.equal(sparse.value, usual.value)
    assert torch.equal(sparse.sparse().to_dense(), expected)


def test_a_batch_of_one_annotation_per_example():
    x, a, y, weight = torch.randn(4, 3), torch.randn(4, 2), torch.tensor([0, 1, 1, 0]), torch.rand(4)
    batch = Batch.of(x, a, y, weight)
    data = Annotations(x, torch.arange(4), a, y, weight=weight).by_annotation(torch.arange(4))
    assert batch.one_to_one
    assert data.one_to_one
    for one, other in zip(batch[:4], data[:4], strict=True):
        torch.testing.assert_close(one, other)
    torch.testing.assert_close(batch.mean(y.float()), data.mean(y.float()))
    tokens = Batch.of({"input_ids": torch.ones(4, 5)}, a, y)
    assert tokens.spread(a) is a


@pytest.mark.parametrize("rows", [{"x": 3}, {"a": 3}])
def test_rows_of_a_batch_must_agree(rows):
    (name,) = rows
    with pytest.raises(ValueError, match=f"`{name}` to have 4 rows, as `y` has, but got 3"):
        Batch.of(torch.ones(rows.get("x", 4), 1), torch.ones(rows.get("a", 4), 1), torch.zeros(4))


def test_privileged_information_that_is_no_number_gets_a_sentence():
    x, y, annotator = torch.ones(3, 1), torch.zeros(3), torch.tensor([[4], [7], [4]])
    for make in (lambda: Batch.of(x, annotator, y), lambda: Annotations(x, torch.arange(3), annotator, y)):
        with pytest.raises(ValueError, match=r"`a` to be floating-point numbers, but got torch.int64: use `a.float"):
            make()
    seconds = torch.tensor([[1.0], [2.0], [float("nan")]])
    with pytest.raises(ValueError, match="`a` to have no missing values, but row 2 has NaN"):
        Batch.of(x, seconds, y)
