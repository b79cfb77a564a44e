"""The proof on a real node: makes the pods, measures, and hands plain evidence to `hami_k3s.isolation`."""
