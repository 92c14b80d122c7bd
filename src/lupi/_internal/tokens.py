"""The maximum number of tokens of a Hugging Face model."""

from typing import Any


def limit_tokens(tokenizer: Any, config: Any) -> int | None:
    """Return the maximum number of tokens per text; None if the tokenizer knows it, or if there is none.

    A tokenizer that declares no maximum has an absurdly large one, with which no text is truncated.
    """
    positions: int | None = getattr(config, "max_position_embeddings", None)
    if positions is None or tokenizer.model_max_length <= positions:
        return None  # the tokenizer's own
    return positions - (getattr(config, "pad_token_id", None) or 0) - 1  # RoBERTa's start after the padding id
