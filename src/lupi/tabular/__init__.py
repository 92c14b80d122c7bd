"""How a table becomes arrays."""
