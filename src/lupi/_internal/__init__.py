"""What everything needs: files, progress, checks and devices."""
