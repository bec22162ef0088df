"""Was it fair: fairness profiles, bundles that others can verify, scanners."""
