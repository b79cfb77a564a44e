"""The kinds that this API server knows: one table, from which discovery, routing and tables are made."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Resource:
    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    short: tuple[str, ...] = ()
    subs: tuple[str, ...] = ()
    also: tuple[str, ...] = field(default=())  # further versions that serve the same objects

    @property
    def key(self) -> str:
        return f"{self.group}/{self.plural}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def singular(self) -> str:
        return self.kind.lower()


def _core(kind: str, plural: str, namespaced: bool = True, short: str = "", subs: str = "") -> Resource:
    return Resource("", "v1", kind, plural, namespaced, tuple(short.split()), tuple(subs.split()))


def _of(
    group: str, kind: str, plural: str, namespaced: bool = True, short: str = "", subs: str = "", version="v1"
):
    return Resource(group, version, kind, plural, namespaced, tuple(short.split()), tuple(subs.split()))


BUILT_IN = [
    _core("Namespace", "namespaces", False, "ns", "status finalize"),
    _core("Node", "nodes", False, "no", "status"),
    _core("Pod", "pods", True, "po", "status log exec attach binding eviction ephemeralcontainers"),
    _core("Service", "services", True, "svc", "status"),
    _core("Endpoints", "endpoints", True, "ep"),
    _core("ConfigMap", "configmaps", True, "cm"),
    _core("Secret", "secrets"),
    _core("ServiceAccount", "serviceaccounts", True, "sa", "token"),
    _core("Event", "events", True, "ev"),
    _core("PersistentVolume", "persistentvolumes", False, "pv", "status"),
    _core("PersistentVolumeClaim", "persistentvolumeclaims", True, "pvc", "status"),
    _core("ReplicationController", "replicationcontrollers", True, "rc", "status scale"),
    _core("ResourceQuota", "resourcequotas", True, "quota", "status"),
    _core("LimitRange", "limitranges", True, "limits"),
    _core("PodTemplate", "podtemplates"),
    _of("apps", "Deployment", "deployments", True, "deploy", "status scale"),
    _of("apps", "DaemonSet", "daemonsets", True, "ds", "status"),
    _of("apps", "ReplicaSet", "replicasets", True, "rs", "status scale"),
    _of("apps", "StatefulSet", "statefulsets", True, "sts", "status scale"),
    _of("apps", "ControllerRevision", "controllerrevisions"),
    _of("batch", "Job", "jobs", True, "", "status"),
    _of("batch", "CronJob", "cronjobs", True, "cj", "status"),
    _of("rbac.authorization.k8s.io", "Role", "roles"),
    _of("rbac.authorization.k8s.io", "RoleBinding", "rolebindings"),
    _of("rbac.authorization.k8s.io", "ClusterRole", "clusterroles", False),
    _of("rbac.authorization.k8s.io", "ClusterRoleBinding", "clusterrolebindings", False),
    _of(
        "admissionregistration.k8s.io", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", False
    ),
    _of(
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        False,
    ),
    _of(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        False,
        "crd crds",
        "status",
    ),
    _of("apiregistration.k8s.io", "APIService", "apiservices", False, "", "status"),
    _of("node.k8s.io", "RuntimeClass", "runtimeclasses", False),
    _of("coordination.k8s.io", "Lease", "leases"),
    _of("discovery.k8s.io", "EndpointSlice", "endpointslices"),
    _of("events.k8s.io", "Event", "events", True, "ev"),
    _of("networking.k8s.io", "Ingress", "ingresses", True, "ing", "status"),
    _of("networking.k8s.io", "IngressClass", "ingressclasses", False),
    _of("networking.k8s.io", "NetworkPolicy", "networkpolicies", True, "netpol"),
    _of("policy", "PodDisruptionBudget", "poddisruptionbudgets", True, "pdb", "status"),
    _of("scheduling.k8s.io", "PriorityClass", "priorityclasses", False, "pc"),
    _of("storage.k8s.io", "StorageClass", "storageclasses", False, "sc"),
    _of("storage.k8s.io", "CSINode", "csinodes", False),
    _of("autoscaling", "HorizontalPodAutoscaler", "horizontalpodautoscalers", True, "hpa", "status", "v2"),
    _of("k3s.cattle.io", "Addon", "addons"),
    _of("helm.cattle.io", "HelmChart", "helmcharts", True, "", "status"),
    _of("helm.cattle.io", "HelmChartConfig", "helmchartconfigs"),
]

# One store for both event APIs, as on a real server.
EVENTS_V1 = next(r for r in BUILT_IN if r.group == "events.k8s.io")


def storage_key(resource: Resource) -> str:
    return "events" if resource is EVENTS_V1 else resource.key


class Table:
    """The built-in kinds plus those that CustomResourceDefinitions add."""

    def __init__(self) -> None:
        self.all: list[Resource] = list(BUILT_IN)

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        for resource in self.all:
            if resource.group == group and resource.plural == plural and resource.version == version:
                return resource
        return None

    def by_kind(self, api_version: str, kind: str) -> Resource | None:
        for resource in self.all:
            if resource.kind == kind and resource.api_version == api_version:
                return resource
        return None

    def by_key(self, key: str) -> Resource:
        return next(r for r in self.all if r.key == key)

    def group_versions(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for resource in self.all:
            versions = found.setdefault(resource.group, [])
            if resource.version not in versions:
                versions.append(resource.version)
        return found

    def sync_custom(self, definitions: list[dict]) -> None:
        custom = []
        for crd in definitions:
            spec = crd.get("spec", {})
            names = spec.get("names", {})
            for version in spec.get("versions", []):
                if version.get("served", True) and names.get("plural") and names.get("kind"):
                    custom.append(
                        _of(
                            spec.get("group", ""),
                            names["kind"],
                            names["plural"],
                            spec.get("scope") != "Cluster",
                            " ".join(names.get("shortNames", [])),
                            "status",
                            version.get("name", "v1"),
                        )
                    )
        self.all = list(BUILT_IN) + custom
