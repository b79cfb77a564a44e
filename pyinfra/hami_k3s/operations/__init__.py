"""Operations: compare a fact with the wish and yield commands; a `host.noop` says why nothing was done."""
