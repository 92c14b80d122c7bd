"""Load models, and print the parts of torch's compiler that this imported."""

import sys

import lupi

if __name__ == "__main__":
    for path in sys.argv[1:]:
        lupi.load(path)
    print([name for name in ("sympy", "torch._dynamo") if name in sys.modules])
