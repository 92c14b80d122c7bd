"""From annotations to a model that needs no privileged information: digits that simulated annotators labelled.

>>> main(epochs=2)  # doctest: +ELLIPSIS
no-pi: accuracy ...
tram: accuracy ...
auto: accuracy ...
"""

from lupi import PrivilegedClassifier
from lupi.datasets import load_digits_annotated


def main(epochs: int = 50) -> None:
    """Train with and without privileged information."""
    digits = load_digits_annotated(annotations=3)  # three labels per digit
    for method in ("no-pi", "tram", "auto"):
        model = PrivilegedClassifier(method=method, epochs=epochs, random_state=0)
        model.fit(digits.X_train, digits.y_train, privileged=digits.privileged, example=digits.example)
        print(f"{method}: accuracy {model.score(digits.X_test, digits.y_test):.3f}")


if __name__ == "__main__":
    main()
