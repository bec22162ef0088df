"""Zstandard: the standard library's module, or its backport for Python before 3.14."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression.zstd import CompressionParameter, DecompressionParameter, ZstdError, ZstdFile
else:
    from backports.zstd import CompressionParameter, DecompressionParameter, ZstdError, ZstdFile

__all__ = ["CompressionParameter", "DecompressionParameter", "ZstdError", "ZstdFile"]
