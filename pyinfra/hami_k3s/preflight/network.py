"""Ports, firewalls, proxies, and the sources that will be used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hami_k3s import releases
from hami_k3s.facts.k3s import LIBRARY
from hami_k3s.facts.machine import PORTS
from hami_k3s.facts.sources import Reached, Source
from hami_k3s.preflight.entry import Found, Look, Unknown, entry
from hami_k3s.settings import Settings

SLOW_S = 2.0


def ports(settings: Settings) -> dict[int, str]:
    """The ports that must be free: k3s', and HAMi's NodePorts where the values keep them."""
    found = dict(PORTS)
    for part in ("scheduler", "devicePlugin"):
        service = (settings.hami_values.get(part) or {}).get("service") or {}
        if isinstance(service, dict) and service.get("type") == "NodePort":
            found |= {
                port: "tcp"
                for name, port in service.items()
                if "ort" in name and isinstance(port, int) and port >= 30000
            }
    return found


def sources(settings: Settings) -> tuple[Source, ...]:
    """Something small at each source that will be used; none where everything comes over SSH."""
    if settings.source == "bundle" or any("@" in proxy for proxy in settings.proxies.values()):
        return ()
    k3s, helm = settings.k3s_release_url, settings.helm_release_url
    toolkit, chart = settings.toolkit_version, settings.hami_chart_version
    found = [
        Source(
            "k3s releases",
            releases.k3s_urls(k3s, settings.k3s_version, "{arch}")[1],
            "k3s_release_url",
            f"test -e {LIBRARY}/k3s-{settings.k3s_version}",
        )
    ]
    with_card, server = settings.k3s_gpu is not False, settings.k3s_role == "server"
    if with_card:
        installed = f"dpkg-query -W -f '${{Version}}.' nvidia-container-toolkit | grep -qxF {toolkit}-1."
        url = f"{settings.toolkit_repository_url}/gpgkey"
        found.insert(0, Source("toolkit repository", url, "toolkit_repository_url", installed))
    if server:
        url = releases.helm_urls(helm, settings.helm_version, "{arch}")[1]
        there = f"test -e {LIBRARY}/helm-{settings.helm_version}"
        found.append(Source("helm releases", url, "helm_release_url", there))
    if settings.driver_install and with_card:
        url = f"{settings.driver_repository_url}/{{platform}}/InRelease"
        found.append(
            Source("driver repository", url, "driver_repository_url", "test -e /proc/driver/nvidia/version")
        )
    if server and not settings.hami_chart_repository.startswith("oci://"):
        url = f"{settings.hami_chart_repository}/index.yaml"
        file = f"ls {LIBRARY}/charts/hami-{chart}-*.tgz"
        found.append(Source("chart repository", url, "hami_chart_repository", file))
    return tuple(found)


@entry(
    "port-taken",
    "blocks",
    "A port that k3s needs is taken by something else",
    why="k3s then starts and dies again and again.",
    fix="Stop what listens there: ss -tulnp",
)
def port_taken(look: Look) -> Iterator[Found | Unknown]:
    taken = look.state.room.taken
    if taken is None:
        yield Unknown("/proc/net/tcp cannot be read")
        return
    wanted = ports(look.settings)
    for (port, protocol), program in sorted(taken.items()):
        if wanted.get(port) == protocol and not look.state.k3s_active and not program.startswith("k3s"):
            yield Found(f"port {port}/{protocol} is taken" + (f" by {program}" if program else ""))


@entry(
    "firewall",
    "blocks",
    "A firewall cuts the pods' traffic",
    why="Pods and services talk from 10.42.0.0/16 and 10.43.0.0/16; dropped there, DNS and HAMi's webhook time out.",
    fix="ufw allow from 10.42.0.0/16 && ufw allow from 10.43.0.0/16 && ufw allow 6443/tcp; or ufw disable",
)
def firewall(look: Look) -> Iterator[Found | Unknown]:
    active = look.state.room.firewalls
    if active is None:
        yield Unknown("ufw is on and its rules cannot be read")
        return
    for name in active:
        fix = ""
        if name == "firewalld":
            fix = (
                "firewall-cmd --permanent --zone=trusted --add-source=10.42.0.0/16 --add-source=10.43.0.0/16 && "
                "firewall-cmd --reload; or systemctl disable --now firewalld"
            )
        yield Found(f"{name} is on and has no rule for 10.42.0.0/16 and 10.43.0.0/16", fix)


@entry(
    "no-default-route",
    "blocks",
    "The host has no default route",
    why="k3s takes its address from it, and refuses to start without one.",
    fix="Where there is no gateway one that leads nowhere will do; docs/air-gap.md has the command",
)
def no_default_route(look: Look) -> Iterator[Found | Unknown]:
    there = look.state.room.default_route
    if there is None:
        yield Unknown("/proc/net/route could not be read")
    elif not there and not look.state.k3s_active:
        yield Found("/proc/net/route has none")


@entry(
    "proxy-partial",
    "warns",
    "A proxy is set in one place and not in another",
    why="apt, downloads and k3s each read their own: what works in a shell then fails in the service.",
    fix="Set http_proxy, https_proxy and no_proxy in the fleet file: apt, downloads, k3s and containerd get them",
)
def proxy_partial(look: Look) -> Iterator[Found]:
    where = look.state.room.proxies
    names = {
        "environment": "the environment",
        "apt": "apt's configuration",
        "k3s": "k3s' service",
        "systemd": "systemd",
    }
    missing = [name for name in ("apt", "k3s") if name not in where]
    if where and missing and not look.settings.proxies:
        given = ", ".join(f"{names[name]} ({url})" for name, url in where.items())
        yield Found(f"a proxy is set in {given}, not in {' and '.join(names[name] for name in missing)}")


def _fix(one: Reached) -> str:
    return f"Check the route, DNS and proxy to it, or set {one.source.setting} to a mirror"


def _asked(look: Look) -> Iterator[Reached]:
    """What came back, with the URLs as this host asked for them."""
    state = look.state
    arch = releases.architecture(state.machine or "") or "amd64"
    platform = (
        f"{state.os_id}{(state.os_version or '').replace('.', '')}/{'sbsa' if arch == 'arm64' else 'x86_64'}"
    )
    for one in state.sources or ():
        url = one.source.url.replace("{arch}", arch).replace("{platform}", platform)
        yield replace(one, source=replace(one.source, url=url))


@entry(
    "source-unreachable",
    "blocks",
    "A source of the installation cannot be reached",
    why="The installation would stop half-way, at the first download from it.",
    fix="Check the route, DNS and proxy to it, or set its setting to a mirror",
)
def source_unreachable(look: Look) -> Iterator[Found | Unknown]:
    if look.settings.source == "bundle":
        return
    if look.state.sources is None:
        yield Unknown("no curl on the host: the sources were not tried")
    elif not look.state.sources and look.settings.proxies:
        yield Unknown("the proxy has credentials, which no command line may show: the sources were not tried")
    for one in _asked(look):
        if (
            one.status == 0
            and not one.connected
            and look.settings.private_ca
            and "SSL certificate" in one.begins
        ):
            yield Unknown(f"{one.source.name}: its certificate is not trusted before private_ca is installed")
        elif one.status == 0 and not one.connected:
            yield Found(
                f"{one.source.name}, {one.source.url}: {one.begins[:90].strip() or 'no answer'}", _fix(one)
            )


@entry(
    "source-refused",
    "blocks",
    "A source of the installation answers with an error",
    why="The version or the path is not there, or the mirror is down.",
    fix="Check the version and the mirror's layout (docs/mirrors.md)",
)
def source_refused(look: Look) -> Iterator[Found]:
    for one in _asked(look):
        if one.status >= 400:
            yield Found(f"{one.source.name}, {one.source.url}: HTTP {one.status}", _fix(one))


@entry(
    "source-html",
    "blocks",
    "A source answers with a web page",
    why="Something in between (a login page, a proxy) answers for it; what it gives is not what was asked for.",
    fix="Log in to the network, or set a proxy or a mirror",
)
def source_html(look: Look) -> Iterator[Found]:
    for one in _asked(look):
        page = one.kind.startswith("text/html") or one.begins.lower().lstrip().startswith(
            ("<!doctype html", "<html")
        )
        if 0 < one.status < 400 and page:
            yield Found(
                f"{one.source.name}, {one.source.url} answers HTTP {one.status} with a web page", _fix(one)
            )


@entry(
    "source-slow",
    "warns",
    "A source answers slowly",
    why="Downloads from it will take long, or end at their limits.",
    fix="Set its setting to a nearer mirror, or raise the *_timeout settings",
)
def source_slow(look: Look) -> Iterator[Found]:
    for one in _asked(look):
        if one.status == 0 and one.connected:
            yield Found(
                f"{one.source.name}, {one.source.url}: connected, no answer in {one.seconds:.0f} s", _fix(one)
            )
        elif one.status and one.seconds > SLOW_S:
            yield Found(
                f"{one.source.name}, {one.source.url}: {one.seconds:.1f} s for a small file", _fix(one)
            )
