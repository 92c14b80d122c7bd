collect_ignore = ["programs"]
