"""Is privileged information worth having, and which annotators and labels should you distrust."""
