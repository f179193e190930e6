"""Dates as ROOT stores them."""

from __future__ import annotations

import calendar
import datetime


def unpack_datetime(packed: int) -> datetime.datetime:
    """Unpack a date as ROOT stores it (`TDatime`): years since 1995, month, day, hour, minute, second.

    They take 6, 4, 5, 5, 6 and 6 bits. A field out of range (in a date that was never set) becomes the nearest
    valid value. The time zone is the writer's, which is unknown.
    """
    year, month = 1995 + (packed >> 26), min(max(packed >> 22 & 15, 1), 12)
    day = min(max(packed >> 17 & 31, 1), calendar.monthrange(year, month)[1])
    hour, minute, second = min(packed >> 12 & 31, 23), min(packed >> 6 & 63, 59), min(packed & 63, 59)
    return datetime.datetime(year, month, day, hour, minute, second)  # noqa: DTZ001
