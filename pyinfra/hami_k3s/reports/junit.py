"""JUnit XML for CI: a suite a host, a case a claim. A warning passes, with its words in system-out."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from datetime import datetime
from typing import Any

from hami_k3s.reports.plain import block, plain

TAG = {"fail": "failure", "error": "error", "skip": "skipped"}


def render(document: dict[str, Any]) -> str:
    """The XML of a fleet's report."""
    suites = [_suite(host) for host in document["hosts"]]
    root = ET.Element("testsuites", {"name": "pyinfra-hami-k3s verify", **_sums(suites)})
    root.extend(suites)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(host: dict[str, Any]) -> ET.Element:
    counts = host["counts"]
    name = plain(host["host"])
    suite = ET.Element(
        "testsuite",
        name=name,
        tests=str(sum(counts.values())),
        failures=str(counts["fail"]),
        errors=str(counts["error"]),
        skipped=str(counts["skip"]),
        time=f"{_seconds(host):.0f}",
        timestamp=(host["started"] or "").removesuffix("Z"),
        hostname=name,
    )
    properties = ET.SubElement(suite, "properties")
    for key, value in host["versions"].items():
        ET.SubElement(properties, "property", name=plain(key), value=plain(str(value)))
    for one in host["verdicts"]:
        owner = name if one["card"] is None else f"{name}.{plain(one['card'])}"
        case = ET.SubElement(suite, "testcase", classname=owner, name=one["claim"], time="0")
        words = f"expected: {plain(one['expected'])}\nobserved: {plain(one['observed'])}"
        if one["why"]:
            words += f"\nwhy: {plain(one['why'])}"
        if one["fix"]:
            words += f"\nto fix: {plain(one['fix'])}"
        if tag := TAG.get(one["status"]):
            message = plain(one["why"] or one["observed"])
            ET.SubElement(case, tag, message=message, type=one["status"]).text = block(words)
        else:
            ET.SubElement(case, "system-out").text = block(f"{one['status']}\n{words}")
    return suite


def _sums(suites: list[ET.Element]) -> dict[str, str]:
    names = ("tests", "failures", "errors", "skipped")
    return {name: str(sum(int(suite.attrib[name]) for suite in suites)) for name in names}


def _seconds(host: dict[str, Any]) -> float:
    if not host["started"] or not host["finished"]:
        return 0.0
    begin, end = (datetime.fromisoformat(host[key]) for key in ("started", "finished"))
    return (end - begin).total_seconds()
