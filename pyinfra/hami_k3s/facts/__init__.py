"""Facts: read one thing on a host, parse it, return plain data. They exit 0 on a bare host and say None for unknown."""
