"""How a table becomes a model folder, and a folder predictions."""
