"""Internal helpers shared by all packages: files, progress, checks and devices."""
