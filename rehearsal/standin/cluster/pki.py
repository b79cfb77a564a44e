"""The cluster's certificate authorities, certificates and the admin kubeconfig, in k3s' paths."""

import base64
import datetime
import ipaddress
import os
import ssl
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from . import paths

CLUSTER_IP = "10.43.0.1"


def write_private(path: Path, data: bytes, mode: int = 0o600) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(f"{path}.new")
    fd = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(fd, "wb") as stream:
        stream.write(data)
    scratch.chmod(mode)
    scratch.replace(path)


def _tls(name: str) -> Path:
    return paths.on_node(f"{paths.TLS}/{name}")


def _key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _builder(common: str, organisation: str | None, issuer: x509.Name | None, key: object, days: int):
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, common)]
    if organisation:
        parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation))
    subject = x509.Name(parts)
    now = datetime.datetime.utcnow()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer or subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def make_authority(common: str) -> tuple[bytes, bytes]:
    """A self-signed authority: certificate and key as PEM."""
    key = _key()
    builder = _builder(common, None, None, key, 3650)
    builder = builder.add_extension(x509.BasicConstraints(True, None), critical=True)
    usage = x509.KeyUsage(True, False, True, False, False, True, False, False, False)
    builder = builder.add_extension(usage, critical=True)
    certificate = builder.sign(key, hashes.SHA256())
    return certificate.public_bytes(serialization.Encoding.PEM), _pem(key)


def issue(
    authority: tuple[bytes, bytes],
    common: str,
    organisation: str | None = None,
    sans: list[str] | None = None,
) -> tuple[bytes, bytes]:
    """A certificate for a server (with names) or a client (without), valid 365 days."""
    ca = x509.load_pem_x509_certificate(authority[0])
    ca_key = serialization.load_pem_private_key(authority[1], None)
    key = _key()
    builder = _builder(common, organisation, ca.subject, key, 365)
    purpose = ExtendedKeyUsageOID.SERVER_AUTH if sans is not None else ExtendedKeyUsageOID.CLIENT_AUTH
    builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
    if sans is not None:
        builder = builder.add_extension(x509.SubjectAlternativeName([_san(s) for s in sans]), critical=False)
    certificate = builder.sign(ca_key, hashes.SHA256())
    return certificate.public_bytes(serialization.Encoding.PEM) + authority[0], _pem(key)


def _san(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _kept_authority(name: str, common: str) -> tuple[bytes, bytes]:
    crt, key = _tls(f"{name}.crt"), _tls(f"{name}.key")
    if not (crt.exists() and key.exists()):
        made = make_authority(common)
        write_private(crt, made[0], 0o644)
        write_private(key, made[1])
    return crt.read_bytes(), key.read_bytes()


def prepare(node: str, address: str, extra_sans: list[str]) -> None:
    """Make what is missing; certificates are issued anew when the names change."""
    server_ca = _kept_authority("server-ca", "k3s-server-ca")
    client_ca = _kept_authority("client-ca", "k3s-client-ca")
    names = ["127.0.0.1", "::1", address, CLUSTER_IP, "localhost", node, "kubernetes", "kubernetes.default"]
    names += ["kubernetes.default.svc", "kubernetes.default.svc.cluster.local", *extra_sans]
    names = list(dict.fromkeys(names))
    marker = _tls("serving-kube-apiserver.names")
    wanted = "\n".join(names)
    if not marker.exists() or marker.read_text() != wanted:
        crt, key = issue(server_ca, "kube-apiserver", sans=names)
        write_private(_tls("serving-kube-apiserver.crt"), crt, 0o644)
        write_private(_tls("serving-kube-apiserver.key"), key)
        write_private(marker, wanted.encode())
    _client("system:admin", "system:masters", "client-admin", client_ca)
    _client("system:apiserver", "system:masters", "client-kube-apiserver", client_ca)


def _client(common: str, organisation: str, name: str, authority: tuple[bytes, bytes]) -> None:
    if not _tls(f"{name}.crt").exists():
        crt, key = issue(authority, common, organisation)
        write_private(_tls(f"{name}.crt"), crt, 0o644)
        write_private(_tls(f"{name}.key"), key)


def peer_context() -> ssl.SSLContext:
    """How one server speaks to another, and to the kubelets."""
    context = ssl.create_default_context(cafile=str(_tls("server-ca.crt")))
    context.load_cert_chain(_tls("client-kube-apiserver.crt"), _tls("client-kube-apiserver.key"))
    return context


AUTHORITIES = ("server-ca.crt", "server-ca.key", "client-ca.crt", "client-ca.key")


def export() -> dict[str, str]:
    """What a joining server gets."""
    return {name: _tls(name).read_text() for name in AUTHORITIES}


def adopt(files: dict[str, str]) -> None:
    for name in AUTHORITIES:
        write_private(_tls(name), files[name].encode(), 0o600 if name.endswith(".key") else 0o644)


def for_kubelet(node: str, addresses: list[str], serving: bool) -> bytes:
    """Certificate and key of a node, in one text as k3s hands them out."""
    names = [*addresses, "127.0.0.1", node, "localhost"]
    kind = "server-ca" if serving else "client-ca"
    authority = (_tls(f"{kind}.crt").read_bytes(), _tls(f"{kind}.key").read_bytes())
    if serving:
        return b"".join(issue(authority, node, sans=list(dict.fromkeys(names))))
    return b"".join(issue(authority, f"system:node:{node}", "system:nodes"))


def split(text: bytes) -> tuple[bytes, bytes]:
    at = text.index(b"-----BEGIN PRIVATE KEY")
    return text[:at], text[at:]


def kubelet_context() -> ssl.SSLContext:
    """How a node speaks to a server."""
    folder = paths.on_node(paths.AGENT)
    context = ssl.create_default_context(cafile=str(folder / "server-ca.crt"))
    context.load_cert_chain(folder / "client-kubelet.crt", folder / "client-kubelet.key")
    return context


def own_kubelet(node: str, address: str) -> None:
    """A server hands its own kubelet the same files that agents get."""
    folder = paths.on_node(paths.AGENT)
    for kind, serving in (("serving-kubelet", True), ("client-kubelet", False)):
        if not (folder / f"{kind}.key").exists():
            certificate, key = split(for_kubelet(node, [address], serving))
            write_private(folder / f"{kind}.crt", certificate)
            write_private(folder / f"{kind}.key", key)
    for name in ("client-ca.crt", "server-ca.crt"):
        write_private(folder / name, _tls(name).read_bytes())


def write_kubelet_kubeconfig() -> None:
    """An agent's only kubeconfig: its kubelet's own identity, through the load balancer."""
    folder = f"{paths.DATA}/agent"
    cluster = {
        "certificate-authority": f"{folder}/server-ca.crt",
        "server": f"https://127.0.0.1:{paths.BALANCER_PORT}",
    }
    user = {
        "client-certificate": f"{folder}/client-kubelet.crt",
        "client-key": f"{folder}/client-kubelet.key",
    }
    content = {
        "apiVersion": "v1",
        "clusters": [{"cluster": cluster, "name": "local"}],
        "contexts": [
            {"context": {"cluster": "local", "namespace": "default", "user": "user"}, "name": "Default"}
        ],
        "current-context": "Default",
        "kind": "Config",
        "users": [{"name": "user", "user": user}],
    }
    write_private(paths.on_node(f"{paths.AGENT}/kubelet.kubeconfig"), yaml.safe_dump(content).encode())


def write_kubeconfig(path: str, mode: int) -> None:
    def inline(name: str) -> str:
        return base64.b64encode(_tls(name).read_bytes()).decode()

    server = f"https://127.0.0.1:{paths.API_PORT}"
    content = {
        "apiVersion": "v1",
        "clusters": [
            {
                "cluster": {"certificate-authority-data": inline("server-ca.crt"), "server": server},
                "name": "default",
            }
        ],
        "contexts": [{"context": {"cluster": "default", "user": "default"}, "name": "default"}],
        "current-context": "default",
        "kind": "Config",
        "users": [
            {
                "name": "default",
                "user": {
                    "client-certificate-data": inline("client-admin.crt"),
                    "client-key-data": inline("client-admin.key"),
                },
            }
        ],
    }
    write_private(paths.on_node(path), yaml.safe_dump(content).encode(), mode)
