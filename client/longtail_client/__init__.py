"""The Python client of Longtail."""

from longtail_client.client import Client, LongtailError, Refused, Unreachable

__all__ = ["Client", "LongtailError", "Refused", "Unreachable"]
