"""Does privileged information help? Methods, baselines and controls, compared on one table."""
