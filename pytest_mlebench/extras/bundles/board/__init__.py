"""A leaderboard as a static site, made from bundles that are verified and audited while it is built."""
