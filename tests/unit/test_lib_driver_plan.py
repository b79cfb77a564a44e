"""Which driver packages a host gets: by card, system, firmware and branch; and what is refused."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from typing import Any

import pytest

from hami_k3s.driver_plan import KEYS, MENDS, plan
from hami_k3s.facts.driver import Device, DriverState
from hami_k3s.facts.host import Host
from hami_k3s.facts.nvidia import NvidiaState
from hami_k3s.operations import driver
from hami_k3s.preflight import CATALOGUE, Look
from hami_k3s.settings import Settings
from tests.unit.operations.fake_host import Call, operate
from tests.unit.test_lib_preflight import FINE

NONE = NvidiaState(message="command not found", pci=1)
CARD = Device("0000:05:00.0", "0302", 0x2BB5)
OLD = Device("0000:05:00.0", "0302", 0x1DB6)
BARE = replace(FINE, nvidia=NONE, driver=DriverState(devices=(CARD,), kernel="6.8.0-1-gcp", packaged=True))


def planned(settings: dict[str, Any] | None = None, **changes: Any) -> Any:
    return plan(Look(replace(BARE, **changes), Settings(driver_install=True, **(settings or {}))))


@pytest.mark.parametrize(
    ("system", "version", "machine", "folder"),
    [
        ("ubuntu", "22.04", "x86_64", "ubuntu2204/x86_64"),
        ("ubuntu", "24.04", "aarch64", "ubuntu2404/sbsa"),
        ("debian", "12", "x86_64", "debian12/x86_64"),
        ("debian", "13", "x86_64", "debian13/x86_64"),
    ],
)
def test_nvidias_repository(system: str, version: str, machine: str, folder: str) -> None:
    found = planned(os_id=system, os_version=version, machine=machine)
    assert found.refused == ""
    assert found.repository.endswith(f"/compute/cuda/repos/{folder}")
    assert found.packages == (("nvidia-open-580", "nvidia-open"),)
    key = KEYS["debian13" if version == "13" else ""]
    assert (found.key, found.fingerprint) == key
    assert key[1].endswith(key[0].removesuffix(".pub").upper())


def test_closed_modules_for_an_old_card() -> None:
    old = replace(BARE.driver, devices=(OLD,))
    assert planned(driver=old).packages == (("cuda-drivers-580", "cuda-drivers"),)
    assert "driver_branch" in planned({"driver_branch": "610"}, driver=old).refused


def test_secure_boot_takes_ubuntus_signed_packages() -> None:
    signed = replace(BARE.driver, secure_boot=True)
    found = planned(driver=signed, os_id="ubuntu", os_version="24.04")
    assert found.repository == ""
    assert found.packages[0] == ("linux-modules-nvidia-580-server-open-6.8.0-1-gcp",)
    assert ("nvidia-utils-580-server",) in found.packages
    assert "Secure Boot" in planned(driver=signed, os_id="debian", os_version="12").refused


def test_refused() -> None:
    assert "nvidia-uninstall" in planned(driver=replace(BARE.driver, packaged=False)).refused
    assert "arm64" in planned(os_id="debian", os_version="12", machine="aarch64").refused


def test_the_codes_it_mends_are_in_the_catalogue() -> None:
    assert set(MENDS) <= {entry.code for entry in CATALOGUE}


def test_a_driver_that_works_is_left_alone() -> None:
    done, why = operate(driver.packages, {Host: FINE}, settings=Settings(driver_install=True))
    assert (done, why) == ([], "driver 610.43.02 works")


def test_packages_are_one_step() -> None:
    (step,), _ = operate(driver.packages, {Host: BARE}, settings=Settings(driver_install=True))
    assert isinstance(step, Call)
    assert "nvidia-open-580" in step.script
    for shell in ("sh", "bash"):
        assert subprocess.run([shell, "-n"], input=step.script, text=True, check=False).returncode == 0


def test_a_due_reboot_is_asked_for_or_done() -> None:
    from hami_k3s.facts.nvidia import Nvidia

    (step,), _ = operate(driver.loaded, {Nvidia: NONE}, settings=Settings(driver_install=True))
    assert isinstance(step, Call)
    assert "driver_reboot" in step.arguments[0]
    steps, _ = operate(
        driver.loaded, {Nvidia: NONE}, settings=Settings(driver_install=True, driver_reboot=True)
    )
    assert [one.function for one in steps if isinstance(one, Call)] == ["reboot", "answers"]
