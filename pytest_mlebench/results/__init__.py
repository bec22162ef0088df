"""Results of run groups: statistics, summaries, comparisons and published results."""
