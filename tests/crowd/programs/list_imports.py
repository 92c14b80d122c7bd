"""Import `lupi.crowd` and print which of the packages that it must not need were imported."""

import sys

if __name__ == "__main__":
    import lupi.crowd  # noqa: F401

    print([name for name in ("torch", "sklearn", "pandas", "joblib") if name in sys.modules])
