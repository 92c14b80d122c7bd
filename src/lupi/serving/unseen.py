"""Count the categories of a table that a model did not see in training."""

import pandas as pd

from lupi.serving.model import TableModel
from lupi.tabular.values import as_text


class UnseenCategories:
    """Count rows with unseen categories, batch by batch; memory does not grow with the number of rows."""

    def __init__(self, model: TableModel) -> None:
        encoder = model.estimator.input_encoder_
        self.encodings = {} if encoder is None else encoder.categories()
        self.counts = dict.fromkeys(self.encodings, 0)
        self.examples: dict[str, str] = {}

    def add(self, batch: pd.DataFrame) -> None:
        """Count the rows of a batch."""
        for name, encoding in self.encodings.items():
            counts = batch[name].value_counts(sort=False)  # without missing values
            distinct = counts.index.to_series()
            unseen = encoding.code(distinct) == -1
            if unseen.any():
                self.counts[name] += int(counts[unseen].sum())
                self.examples.setdefault(name, as_text(distinct[unseen].iloc[0]))

    def describe(self) -> list[str]:
        """Return a sentence for every column with unseen categories."""
        return [
            f"Input column {name!r} has categories that were not in the training table, such as {example[:50]!r}, in "
            f"{self.counts[name]:,} row{'' if self.counts[name] == 1 else 's'}, and is ignored there."
            for name, example in self.examples.items()
        ]
