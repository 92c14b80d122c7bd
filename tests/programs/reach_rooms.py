"""Reach rooms as attributes of the package, without importing them first."""

import lupi

print(lupi.methods.names()[0], lupi.training.fit.__name__, lupi.load.__name__, "nn" in dir(lupi))
