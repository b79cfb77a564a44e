"""The node agent: images, sandboxes, containers, logs, exec."""
