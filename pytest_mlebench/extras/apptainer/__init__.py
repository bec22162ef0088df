"""Agents in Apptainer's containers, for clusters without a container daemon. ``sandbox`` runs them, ``images`` makes
their SIF files, ``definition`` reads Dockerfiles for that, ``probe`` finds out what an installation can do."""
