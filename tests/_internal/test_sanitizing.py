import pytest
from hypothesis import given
from hypothesis import strategies as st

from lupi._internal.sanitizing import sanitize, shorten


@pytest.mark.parametrize("text", ["שלום", "日本語", "ü\u0308", "a\tb\nc", "👩‍🔬", "<b> & \"'"])
def test_names_in_any_script_stay_as_they_are(text):
    assert sanitize(text) == text


@given(st.text(alphabet=st.characters(), max_size=50))
def test_sanitized_text_can_be_encoded_and_has_no_control_characters(text):
    left = sanitize(text)
    left.encode()
    assert not set(left) & set("\x00\x1b\x7f\u202a\u202e\u2066\u2069\ufffe")


@given(st.text(max_size=60), st.integers(2, 30))
def test_a_shortened_name_is_one_line_within_its_width(text, width):
    name = shorten(text, width)
    assert len(name) <= width
    assert "\n" not in name
    whole = " ".join(sanitize(text).split())
    assert name == whole or (name.endswith("…") and whole.startswith(name[:-1]))
