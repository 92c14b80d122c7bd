import pytest
from hypothesis import given
from hypothesis import strategies as st

from lupi.report.characters import fit, short


@pytest.mark.parametrize("text", ["שלום", "日本語", "ü\u0308", "a\tb\nc", "👩‍🔬", "<b> & \"'"])
def test_names_in_any_script_stay_as_they_are(text):
    assert fit(text) == text


@given(st.text(alphabet=st.characters(), max_size=50))
def test_what_is_left_can_be_written(text):
    left = fit(text)
    left.encode()
    assert not set(left) & set("\x00\x1b\x7f\u202a\u202e\u2066\u2069\ufffe")


@given(st.text(max_size=60), st.integers(2, 30))
def test_a_short_name_is_one_line_no_longer_than_asked(text, width):
    name = short(text, width)
    assert len(name) <= width
    assert "\n" not in name
    whole = " ".join(fit(text).split())
    assert name == whole or (name.endswith("…") and whole.startswith(name[:-1]))
