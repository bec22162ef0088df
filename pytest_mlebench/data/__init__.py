"""Where data comes from: downloads, the store, and helpers for preparers."""

from pytest_mlebench.io.extensions import moved

moved("0.3", {"data.authoring": "authoring"})
