"""Data of competitions: downloads, preparation and the data store."""

from pytest_mlebench.io.extensions import moved

moved("0.3", {"data.authoring": "authoring"})
