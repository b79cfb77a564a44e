"""Throw-away machines and the small internet they install from: the whole job without a GPU."""
