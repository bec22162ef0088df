"""Engines execute runs that outlive their session, on this machine or a cluster. ``contract`` defines an engine,
``queue`` submits a session's runs to it, and ``plan`` has the files that sessions and jobs share."""
