"""What came out: statistics, summaries, comparisons, published results."""
