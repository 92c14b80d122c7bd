"""Columns in ONNX operators equal columns in pandas."""

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from lupi.estimators.onnx_export import OPSET
from lupi.tabular.kinds.number import parse_numbers
from lupi.tabular.onnx_graph import OnnxGraph
from lupi.tabular.text_encoders import TfidfEncoder


def make_session(add, output=TensorProto.DOUBLE):
    """Return a session that computes what a function adds to a graph of strings."""
    graph = OnnxGraph()
    result = add(graph, graph.read("text", "text", missing=""))
    opset = [helper.make_opsetid(domain, version) for domain, version in OPSET.items()]
    proto = helper.make_graph(
        graph.nodes,
        "test",
        [helper.make_tensor_value_info("text", TensorProto.STRING, ["rows"])],
        [helper.make_tensor_value_info(result, output, None)],
        graph.constants,
    )
    content = helper.make_model(proto, opset_imports=opset, ir_version=10).SerializeToString()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return lambda texts: session.run(None, {"text": np.array(texts, dtype=object)})[0]


@pytest.fixture(scope="module")
def parse():
    return make_session(OnnxGraph.parse_number)


DATES = st.datetimes(min_value=pd.Timestamp("1700-01-01"), max_value=pd.Timestamp("2250-12-31"))
ZONES = st.sampled_from(["", "Z", "+00:00", "+05:30", "-11:00", "-00:30"])


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(DATES, ZONES, st.sampled_from(["T", " "])), min_size=1, max_size=20))
def test_dates_are_those_of_pandas(parse, dates):
    texts = [f"{when.isoformat(sep, 'microseconds')}{zone}" for when, zone, sep in dates]
    texts += [when.isoformat(sep, "seconds") + zone for when, zone, sep in dates]
    texts += [when.isoformat(sep, "minutes") for when, _, sep in dates] + [
        when.date().isoformat() for when, *_ in dates
    ]
    np.testing.assert_allclose(parse(texts), parse_numbers(pd.Series(texts)), rtol=0, atol=1e-5)


def test_a_time_without_a_zone_is_in_utc_whatever_stands_before(parse):
    texts = [
        "2000-01-01T00:00:00+05:30",
        "2000-01-01T00:00",
        "2000-01-01 00:00:00.5",
        "2000-01-01T00:00:00-11:00",
    ]
    seconds = 946684800 + np.array([-5.5 * 3600, 0, 0.5, 11 * 3600])
    np.testing.assert_array_equal(parse(texts), seconds)
    np.testing.assert_array_equal(parse_numbers(pd.Series(texts)), seconds)


def test_every_day_of_leap_years(parse):
    days = [
        str(day.date())
        for year in (1700, 1899, 1900, 2000, 2024, 2026, *((1600,) if pd.__version__ >= "3" else ()))
        for day in pd.date_range(str(year), periods=400)
    ]
    np.testing.assert_array_equal(parse(days), parse_numbers(pd.Series(days)))


def test_numbers_and_missing_values(parse):
    texts = ["5", "-1.5", "+2e3", ".5", "7.", "1E-3", "", " "]
    np.testing.assert_array_equal(parse(texts), [5, -1.5, 2000, 0.5, 7, 1e-3, np.nan, np.nan])


@pytest.mark.parametrize(
    "text",
    [
        "5x",
        "yesterday",
        "2026-02-29",
        "1900-02-29",
        "2026-04-31",
        "2026-13-01",
        "2026-01-00",
        "2026-01-01T24:00",
        "inf",
    ],
)
def test_what_is_neither_is_an_error(parse, text):
    with pytest.raises(Exception, match="stod"):
        parse(["2026-01-01", text])


TEXTS = [
    "The plot is GOOD, the plot is long; the cast is good!",
    "Große Übung: naïve Ærø",
    "北京大学 and x_1 don't",
    "ÉCOLE école\nnew line\ttab",
    "",
    "nothing known here at all",
    "a b c",
    "١٢٣ ½½ हिन्दी 3.14 1,000",
]


@pytest.mark.parametrize("width", [3, 256])
def test_texts_are_those_of_scikit_learn(width):
    encoder = TfidfEncoder(width=width).fit([*TEXTS[:4], TEXTS[-1], "plot of the cast"])
    run = make_session(encoder.to_onnx)
    np.testing.assert_allclose(run(TEXTS), encoder.transform(TEXTS), rtol=0, atol=1e-6)
    np.testing.assert_array_equal(run([""]), encoder.transform([""]))


def test_words_in_ascii_need_no_locale():
    encoder = TfidfEncoder().fit(["good plot", "bad cast"])
    run = make_session(encoder.to_onnx)
    texts = ["GOOD École", "É good plot"]
    np.testing.assert_allclose(run(texts), encoder.transform(texts), rtol=0, atol=1e-6)
