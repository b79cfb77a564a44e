"""Operations whose facts are plain data, case by case from YAML."""

from pathlib import Path

from pyinfra_testing.operations import make_operation_tests

CASES = Path(__file__).parent / "cases"

TestOwned = make_operation_tests("hami_k3s.operations", "files.owned", CASES / "files.owned")
