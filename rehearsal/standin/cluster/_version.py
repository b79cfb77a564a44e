"""Rewritten by the build: the k3s version this binary says it is."""

VERSION = "v1.36.2+k3s1"
COMMIT = "3f1a9c27"
