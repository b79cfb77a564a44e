"""Files that run inside verify's pods, not on this machine. `source()` gives their text to send."""

from importlib.resources import files


def source(name: str) -> str:
    """The text of a probe: `driver_probe.py` or `nvcc_probe.cu`."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
