"""What happens to verify happens to machines: the reports are complete, nothing is left, and it is never a pass."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.rehearsal.proof_runs import HEALTHY, PYINFRA, REPOSITORY, Proof

pytestmark = pytest.mark.rehearsal
SCHEMA = json.loads((REPOSITORY / "docs/report.schema.json").read_text())
LEFT = "k3s kubectl get namespaces -o name | grep -q hami-k3s-verify"


@pytest.fixture(scope="module")
def proof(rehearsal: Any) -> Iterator[Proof]:
    with rehearsal("survives", card="h200", count=2) as node:
        proof = Proof(node)
        done = proof.deploy("deploys/gpu_node.py", node.fleet)
        assert done.returncode == 0, done.stdout
        yield proof


def report(folder: Path) -> dict[str, Any]:
    """The fleet's report.json, which follows the schema whatever happened; its companions are there."""
    (found,) = folder.glob("*/report.json")
    for name in ("junit.xml", "report.md", "report.html"):
        assert found.with_name(name).exists()
    whole: dict[str, Any] = json.loads(found.read_text())
    jsonschema.validate(whole, SCHEMA)
    return whole


def test_every_card_at_the_same_time_and_one_host_that_is_not_there(proof: Proof, tmp_path: Path) -> None:
    content = yaml.safe_load(proof.node.fleet.read_text())
    content["hosts"].append({**content["hosts"][0], "name": "gone-1", "ssh_port": 9})
    (tmp_path / "fleet.yaml").write_text(yaml.safe_dump(content))
    begun = time.monotonic()
    done = proof.deploy(
        "deploys/verify.py", tmp_path / "fleet.yaml", "--data", f"report_folder={tmp_path / 'r'}"
    )
    assert time.monotonic() - begun < 60
    assert done.returncode != 0
    whole = report(tmp_path / "r")
    here, gone = whole["hosts"]
    assert (here["host"], here["outcome"]) == ("h200-1", "warn")
    assert [card["outcome"] for card in here["cards"]] == ["warn", "warn"]
    assert len({card["uuid"] for card in here["cards"]}) == 2
    assert all(card["memory"]["host_free_mib"] > 100000 for card in here["cards"])
    assert (gone["host"], gone["outcome"], gone["trouble"]) == (
        "gone-1",
        "error",
        "the host could not be reached",
    )
    assert whole["rerun"] == (
        f"GPU_FLEET={shlex.quote(str(tmp_path / 'fleet.yaml'))} pyinfra inventory.py deploys/verify.py -y "
        f"--data report_folder={shlex.quote(str(tmp_path / 'r'))} --limit gone-1"
    )
    assert done.stdout.count("--limit gone-1") == 1, "said once"
    assert "fleet: error (2 hosts: 1 warn, 1 error; gone-1: the host could not be reached)" in done.stdout
    proof.wait(proof.node.name, f"! {LEFT}")


def test_only_the_cards_that_were_asked_for(proof: Proof, tmp_path: Path) -> None:
    options = ("--data", f"report_folder={tmp_path}", "--data", "verify_cards=first")
    done = proof.deploy("deploys/verify.py", proof.node.fleet, *options)
    assert done.returncode == 0, done.stdout
    (host,) = report(tmp_path)["hosts"]
    assert len(host["cards"]) == 1
    assert any("card 1 (NVIDIA H200" in one["what"] and "first" in one["why"] for one in host["not_tested"])


def test_the_labs_probe_says_the_same(proof: Proof, tmp_path: Path) -> None:
    options = ("--data", f"report_folder={tmp_path}", "--data", "verify_probe=nvcc")
    done = proof.deploy("deploys/verify.py", proof.node.fleet, *options)
    assert done.returncode == 0, done.stdout
    (host,) = report(tmp_path)["hosts"]
    seen = {one["claim"]: one for one in host["verdicts"] if one["scope"] == "card"}
    assert {name for name, one in seen.items() if one["status"] != "pass"} == {"routes"}
    assert seen["routes"]["observed"] == "enforced: pitch, async, vmm, managed; NOT enforced: pool, array"
    assert seen["refused"]["observed"].startswith("refused after 7424 MiB, OOM ")


def test_the_api_server_restarts_in_the_middle(proof: Proof, tmp_path: Path) -> None:
    node = proof.node.name

    def restart() -> None:
        proof.wait(node, "k3s kubectl get pods -A 2>/dev/null | grep -q 'hami-share-a .*Running'")
        proof.on(node, "systemctl restart k3s")

    other = threading.Thread(target=restart)
    other.start()
    # HAMi may take the node out for a minute after the restart.
    limits = ("verify_timeout=40", "verify_pending_timeout=90", f"report_folder={tmp_path}")
    options = [word for one in limits for word in ("--data", one)]
    done = proof.deploy("deploys/verify.py", proof.node.fleet, *options)
    other.join()
    (host,) = report(tmp_path)["hosts"]
    # Either it waited the restart out and proved all of it, or it says what it could not measure.
    statuses = {one["status"] for one in host["verdicts"]}
    assert (done.returncode == 0) is (statuses <= {"pass", "warn"}), done.stdout
    assert "fail" not in statuses, done.stdout
    proof.wait(node, HEALTHY.replace("'10 True'", "'20 True'"), 60)
    proof.wait(node, f"! {LEFT}")


def test_an_interrupted_run_leaves_reports_and_no_pods(proof: Proof, tmp_path: Path) -> None:
    node = proof.node.name
    process = subprocess.Popen(
        [str(PYINFRA), "inventory.py", "deploys/verify.py", "-y", "--data", f"report_folder={tmp_path}"],
        cwd=REPOSITORY,
        env=dict(os.environ, GPU_FLEET=str(proof.node.fleet), PYTHONUNBUFFERED="1"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    proof.wait(node, LEFT)
    os.killpg(process.pid, signal.SIGINT)
    text, _ = process.communicate(timeout=120)
    assert process.returncode != 0
    whole = report(tmp_path)
    assert (whole["complete"], whole["trouble"], whole["outcome"]) == (False, "interrupted", "error")
    assert {one["status"] for one in whole["hosts"][0]["verdicts"]} == {"error"}
    assert "fleet: error" in text
    proof.wait(node, f"! {LEFT}")
