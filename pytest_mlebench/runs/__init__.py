"""What a run is: its directory, outcome, record, group and manifest, and the run itself."""
