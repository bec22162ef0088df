"""A leaderboard as a static site, built from bundles that are verified and audited in the process."""
