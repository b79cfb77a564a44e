"""What the controllers of a cluster do: each turns wishes into objects, one pass at a time."""
