"""docs/performance.md and its chart, made from kept measurements.

python -m bench.page docs/performance.json
"""

from __future__ import annotations

import sys
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from bench import chart
from bench.rows import ANSIBLE, CONVERGE, NOOP, OURS, SHELL, VERIFY, factors, load

HERE = Path(__file__).resolve().parent


def write(kept: Path) -> list[Path]:
    """The page and the chart beside the measurements; their paths."""
    rows, about = load(kept)
    found = {(row.nodes, row.contender, row.run): row for row in rows}
    environment = Environment(loader=FileSystemLoader(HERE), undefined=StrictUndefined, trim_blocks=True)
    environment.filters["seconds"] = lambda value: f"{value:.1f}" if value >= 1 else f"{value:.2f}"
    text = environment.get_template("performance.md.j2").render(
        about=about,
        rows=rows,
        found=found,
        sizes=sorted({row.nodes for row in rows}),
        factors=factors(rows),
        names={
            "ours": OURS,
            "shell": SHELL,
            "ansible": ANSIBLE,
            "converge": CONVERGE,
            "noop": NOOP,
            "verify": VERIFY,
        },
        chart=kept.with_suffix(".svg").name,
        json=kept.name,
    )
    written = {kept.with_suffix(".svg"): chart.svg(rows), kept.with_suffix(".md"): text.rstrip("\n") + "\n"}
    for path, content in written.items():
        path.write_text(content)
    return list(written)


if __name__ == "__main__":
    print(*write(Path(sys.argv[1])), sep="\n")
