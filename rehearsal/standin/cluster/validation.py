"""What an API server refuses: bad names and labels, unknown fields of pods, changes of what cannot change."""

import re
from typing import Any

from . import problem
from .problem import ProblemError
from .resources import Resource
from .store import Store
from .words import words

Object = dict[str, Any]
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LABEL_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
SUBDOMAIN_WHY = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_WHY = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)

POD_FIELDS = set(
    words(
        """
    activeDeadlineSeconds affinity automountServiceAccountToken containers dnsConfig dnsPolicy
    enableServiceLinks ephemeralContainers hostAliases hostIPC hostNetwork hostPID hostUsers
    hostname hostnameOverride imagePullSecrets initContainers nodeName nodeSelector os overhead
    preemptionPolicy priority priorityClassName readinessGates resourceClaims resources
    restartPolicy runtimeClassName schedulerName schedulingGates securityContext serviceAccount
    serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain
    terminationGracePeriodSeconds tolerations topologySpreadConstraints volumes workloadRef
    """
    )
)
CONTAINER_FIELDS = set(
    words(
        """
    args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports readinessProbe
    resizePolicy resources restartPolicy restartPolicyRules securityContext startupProbe stdin
    stdinOnce terminationMessagePath terminationMessagePolicy tty volumeDevices volumeMounts
    workingDir
    """
    )
)


def check(resource: Resource, obj: Object, strict: bool) -> None:
    meta = obj.get("metadata") or {}
    name = meta.get("name", "")
    loose = resource.group == "rbac.authorization.k8s.io"
    if not loose and (len(name) > 253 or not SUBDOMAIN.fullmatch(name)):
        why = f'Invalid value: "{name}": {SUBDOMAIN_WHY}'
        raise problem.invalid(resource.kind, name, "metadata.name", why, resource.group)
    labels(resource, name, meta.get("labels"), "metadata.labels")
    for key in meta.get("annotations") or {}:
        _key(resource, name, key, "metadata.annotations")
    for spec, path in pod_specs(resource, obj):
        if strict:
            _unknown_fields(resource, spec, path)
        _pod_spec(resource, name, spec, path)
    if resource.key in ("apps/deployments", "apps/daemonsets", "apps/replicasets"):
        _selector(resource, name, obj["spec"])


def labels(resource: Resource, name: str, values: dict[str, Any] | None, field: str) -> None:
    for key, value in (values or {}).items():
        _key(resource, name, key, field)
        text = str(value)
        if len(text) > 63 or (text and not LABEL_NAME.fullmatch(text)):
            why = f'Invalid value: "{text}": {LABEL_WHY}'
            raise problem.invalid(resource.kind, name, field, why, resource.group)


def _key(resource: Resource, name: str, key: str, field: str) -> None:
    prefix, slash, short = key.rpartition("/")
    if not LABEL_NAME.fullmatch(short) or len(short) > 63 or (slash and not SUBDOMAIN.fullmatch(prefix)):
        why = f"Invalid value: \"{key}\": name part must consist of alphanumeric characters, '-', '_' or '.'"
        raise problem.invalid(resource.kind, name, field, why, resource.group)


def pod_specs(resource: Resource, obj: Object) -> list[tuple[Object, str]]:
    if resource.key == "pods":
        return [(obj.get("spec") or {}, "spec")]
    template = (obj.get("spec") or {}).get("template") if resource.group in ("apps", "batch") else None
    return [((template or {}).get("spec") or {}, "spec.template.spec")] if template else []


def _unknown_fields(resource: Resource, spec: Object, path: str) -> None:
    unknown = [f"{path}.{k}" for k in spec if k not in POD_FIELDS]
    for kind in ("containers", "initContainers"):
        for n, container in enumerate(spec.get(kind) or []):
            unknown += [f"{path}.{kind}[{n}].{k}" for k in container if k not in CONTAINER_FIELDS]
    if unknown:
        found = ", ".join(f'unknown field "{u}"' for u in unknown)
        text = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
        raise ProblemError(400, f"{text}strict decoding error: {found}")


def _pod_spec(resource: Resource, name: str, spec: Object, path: str) -> None:
    def refuse(field: str, why: str) -> None:
        raise problem.invalid(resource.kind, name, f"{path}.{field}", why, resource.group)

    if not spec.get("containers"):
        refuse("containers", "Required value")
    seen = set()
    for n, container in enumerate(spec["containers"]):
        if not container.get("name"):
            refuse(f"containers[{n}].name", "Required value")
        if container["name"] in seen:
            refuse(f"containers[{n}].name", f'Duplicate value: "{container["name"]}"')
        seen.add(container["name"])
        if not container.get("image") and resource.key == "pods":
            refuse(f"containers[{n}].image", "Required value")
        resources = container.get("resources") or {}
        for key, amount in (resources.get("limits") or {}).items():
            field = f"containers[{n}].resources.limits[{key}]"
            if not re.fullmatch(r"[0-9.]+([eE][0-9]+|m|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi|E|Ei)?", str(amount)):
                raise ProblemError(
                    400,
                    f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
                    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
                )
            if "/" in key and not re.fullmatch(r"[0-9]+([kMGT]i?)?", str(amount)):
                refuse(field, f'Invalid value: "{amount}": must be an integer')
            requested = (resources.get("requests") or {}).get(key)
            if "/" in key and requested is not None and str(requested) != str(amount):
                refuse(
                    f"containers[{n}].resources.requests",
                    f"Invalid value: must be equal to {key} limit of {amount}",
                )
        for key in resources.get("requests") or {}:
            if "/" in key and key not in (resources.get("limits") or {}):
                refuse(f"containers[{n}].resources.limits", f"Required value: Limit must be set for {key}")
    if spec.get("restartPolicy", "Always") not in ("Always", "OnFailure", "Never"):
        refuse(
            "restartPolicy",
            f'Unsupported value: "{spec["restartPolicy"]}": supported values: "Always", "Never"',
        )


def _selector(resource: Resource, name: str, spec: Object) -> None:
    wanted = (spec.get("selector") or {}).get("matchLabels") or {}
    actual = (spec.get("template", {}).get("metadata") or {}).get("labels") or {}
    if not spec.get("selector"):
        raise problem.invalid(resource.kind, name, "spec.selector", "Required value", resource.group)
    if any(actual.get(k) != v for k, v in wanted.items()):
        why = "Invalid value: `selector` does not match template `labels`"
        raise problem.invalid(resource.kind, name, "spec.template.metadata.labels", why, resource.group)


def check_change(resource: Resource, old: Object, new: Object) -> None:
    """Fields that cannot change once an object exists."""
    name = old["metadata"]["name"]
    if resource.key == "pods" and _frozen(old["spec"]) != _frozen(new.get("spec") or {}):
        why = (
            "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
            "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
            "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
        )
        raise problem.invalid("Pod", name, "spec", why)
    if resource.group == "apps" and old["spec"].get("selector") != new["spec"].get("selector"):
        why = "Invalid value: field is immutable"
        raise problem.invalid(resource.kind, name, "spec.selector", why, resource.group)
    if resource.key == "batch/jobs" and old["spec"]["template"] != new["spec"].get("template"):
        raise problem.invalid("Job", name, "spec.template", "Invalid value: field is immutable", "batch")
    if resource.key == "secrets" and old.get("type") != new.get("type", old.get("type")):
        raise problem.invalid("Secret", name, "type", "Invalid value: field is immutable")


def _frozen(spec: Object) -> Object:
    free = ("tolerations", "activeDeadlineSeconds", "terminationGracePeriodSeconds")
    kept = {k: v for k, v in spec.items() if k not in free}
    for kind in ("containers", "initContainers"):
        if kind in kept:
            kept[kind] = [{k: v for k, v in c.items() if k != "image"} for c in kept[kind]]
    return kept


def check_node_ports(obj: Object, store: Store) -> None:
    if (obj.get("spec") or {}).get("type") not in ("NodePort", "LoadBalancer"):
        return
    me = (obj["metadata"].get("namespace"), obj["metadata"]["name"])
    for service in store.select("services"):
        if (service["metadata"]["namespace"], service["metadata"]["name"]) == me:
            continue
        taken = {p.get("nodePort") for p in service["spec"].get("ports", []) if p.get("nodePort")}
        for n, port in enumerate(obj["spec"].get("ports") or []):
            if port.get("nodePort") in taken:
                why = f"Invalid value: {port['nodePort']}: provided port is already allocated"
                raise problem.invalid("Service", me[1], f"spec.ports[{n}].nodePort", why)
