"""Times as the API writes them."""

import datetime


def utcnow() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def stamp() -> str:
    return utcnow().strftime("%Y-%m-%dT%H:%M:%SZ")


def micro() -> str:
    return utcnow().strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def age(text: str | None) -> float:
    """Seconds since a stamp; a missing stamp is infinitely old."""
    if not text:
        return float("inf")
    return (utcnow() - parse(text)).total_seconds()
