"""What is stored of runs and run groups."""
