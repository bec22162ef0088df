"""Where runs are handed to when they outlive their session: this machine, or a cluster. ``contract`` is what an engine
does, ``queue`` what a session does with it, ``plan`` what both read and write."""
