"""A read-only web application for a folder of files and reports.

`folder` resolves URLs, `guard` refuses requests, `views` and `plots` write pages, and `application` joins them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sapwood.lazy import lazily

if TYPE_CHECKING:
    from sapwood.tools.serving.application import application, serve

__all__ = ["application", "serve"]

__getattr__, __dir__ = lazily(globals(), {"sapwood.tools.serving.application": ("application", "serve")})
