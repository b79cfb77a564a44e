"""Operations whose facts are plain data, case by case from YAML."""

from pathlib import Path

from pyinfra.api.state import StateStage
from pyinfra_testing.operations import make_operation_tests
from pyinfra_testing.util import FakeState

CASES = Path(__file__).parent / "cases"

# Of a run's state this project's code looks at these, too.
FakeState.current_stage, FakeState.initialised = StateStage.Prepare, False

TestOwned = make_operation_tests("hami_k3s.operations", "files.owned", CASES / "files.owned")
