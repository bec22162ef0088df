"""A module for each kind of page: its addresses, and what they show."""
