"""Measures of what the library costs, each a ratio of two things timed side by side: ``python -m benchmarks``."""
