"""nvidia is containerd's default runtime."""

from __future__ import annotations

from hami_k3s.isolation.claims._claim import Claim
from hami_k3s.isolation.evidence import Evidence
from hami_k3s.isolation.verdict import Verdict, failed, passed

ID = "runtime"
NVIDIA = "nvidia"
EXPECTED = 'default_runtime_name = "nvidia", and a binary behind it'
RESTART = (
    "install the NVIDIA container toolkit, then systemctl restart k3s; converge with deploys/gpu_node.py"
)


def decide(evidence: Evidence) -> Verdict:
    """The config that k3s rendered, and, where known, the handler that a pod without a runtime class got."""
    config = evidence.measured("containerd", evidence.containerd)
    default = config.default_runtime_name
    observed = f'default_runtime_name = "{default}"' if default else "no default_runtime_name"
    if default != NVIDIA:
        return failed(
            ID,
            EXPECTED,
            f"{observed} in {config.path}",
            "pods without a runtime class get no driver libraries, and HAMi's own pods set none",
            "set default-runtime: nvidia in /etc/rancher/k3s/config.yaml.d/50-gpu-node.yaml, then restart k3s",
        )
    binary = config.runtimes.get(NVIDIA)
    if not binary:
        why = "k3s found no nvidia-container-runtime when it started"
        return failed(ID, EXPECTED, f"{observed}, but no runtime nvidia with a BinaryName", why, RESTART)
    handler = evidence.default_handler
    if handler is not None and handler != NVIDIA:
        return failed(
            ID,
            EXPECTED,
            f"{observed}, but a pod without a runtime class ran under {handler}",
            "containerd still runs with an older configuration",
            "systemctl restart k3s, then recreate the pods",
        )
    seen = f"; a pod without a runtime class ran under {handler}" if handler else ""
    return passed(ID, EXPECTED, f"{observed} ({binary}, config schema {config.schema_version}){seen}")


PAGE = """\
- Measured: the config that k3s rendered, parsed as TOML (schema 2 or 3); where known, the handler that a pod
  without a runtime class really got. The existence of RuntimeClass `nvidia` proves nothing and is not used.
- Fails: another default, no binary behind `nvidia`, or a pod ran under another handler (containerd runs with an
  older config).
- Do: converge with `deploys/gpu_node.py`; by hand: toolkit first, `default-runtime: nvidia` in the k3s config,
  restart k3s.
"""

CLAIM = Claim(
    id=ID,
    scope="node",
    statement="nvidia is containerd's default runtime.",
    proof="the rendered containerd config parsed as TOML, the handler of a pod without a runtime class",
    step="2, 3",
    decide=decide,
    page=PAGE,
)
