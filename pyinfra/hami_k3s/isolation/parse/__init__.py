"""Text that tools print, to evidence: pure functions shared by the facts and the claims.

Each raises `ParseError` on text that it does not understand, with the text in the message.
"""

from hami_k3s.isolation.parse.allocation import format_allocated, parse_allocated
from hami_k3s.isolation.parse.environment import gpu_environment, preload_names_hami_core
from hami_k3s.isolation.parse.errors import ParseError
from hami_k3s.isolation.parse.events import Reading, read_event
from hami_k3s.isolation.parse.hami_core import (
    OutOfMemory,
    find_out_of_memory,
    find_preload_error,
    without_hami_core,
)
from hami_k3s.isolation.parse.nvidia_smi import QUERY, QUERY_FIELDS, parse_cards, parse_kernel_module
from hami_k3s.isolation.parse.probe import parse_probe
from hami_k3s.isolation.parse.registration import Handshake, parse_handshake, parse_registration

__all__ = [
    "QUERY",
    "QUERY_FIELDS",
    "Handshake",
    "OutOfMemory",
    "ParseError",
    "Reading",
    "find_out_of_memory",
    "find_preload_error",
    "format_allocated",
    "gpu_environment",
    "parse_allocated",
    "parse_cards",
    "parse_handshake",
    "parse_kernel_module",
    "parse_probe",
    "parse_registration",
    "preload_names_hami_core",
    "read_event",
    "without_hami_core",
]
