"""Agents in Apptainer containers, for clusters without a container daemon. ``sandbox`` runs them, ``images`` builds
their SIF files, ``definition`` translates Dockerfiles, and ``probe`` tests what an installation can do."""
