"""pyinfra stages, operations and facts for k3s nodes whose NVIDIA cards HAMi shares."""

import sys

# pyinfra's command switches Python's cache of compiled modules off, for deploy files: all of ours would be compiled in every run.
sys.dont_write_bytecode = bool(sys.flags.dont_write_bytecode)
