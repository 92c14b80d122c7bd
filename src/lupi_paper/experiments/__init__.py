"""The experiments: a module each, with `Settings` and `run`, and the modules that they share."""
