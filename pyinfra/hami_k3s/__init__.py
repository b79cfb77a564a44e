"""pyinfra stages, operations and facts for k3s nodes whose NVIDIA cards HAMi shares."""

import gc
import sys

if "pyinfra_cli" in sys.modules:
    # The pyinfra command switches Python's cache of compiled modules off, for deploy files: all of ours would be compiled in
    # every run. And what it has loaded stays to the end: going through that again and again costs more than what we load.
    sys.dont_write_bytecode = bool(sys.flags.dont_write_bytecode)
    gc.freeze()
