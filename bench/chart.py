"""Bars as SVG, without a library: one panel a kind of run, one group a number of nodes, one bar a contender."""

from __future__ import annotations

from html import escape

from bench.rows import ANSIBLE, CONVERGE, NOOP, OURS, SHELL, Row

COLOURS = {OURS: "#2f9e6e", SHELL: "#8a8f98", ANSIBLE: "#d1495b"}
TITLES = {CONVERGE: "First run, seconds", NOOP: "Run that changes nothing, seconds"}
WIDTH, PANEL, HEIGHT, FOOT, BAR = 860, 400, 250, 60, 30
# Readable on a light and on a dark page.
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#333}.value{font-size:12px}.title{font-weight:600}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}}"
)


def svg(rows: list[Row]) -> str:
    """The picture."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT + FOOT + 40}" role="img">',
        f"<title>{escape('Time of the first run and of a run that changes nothing')}</title><style>{STYLE}</style>",
    ]
    for number, kind in enumerate(TITLES):
        parts += _panel(20 + number * (PANEL + 20), kind, [row for row in rows if row.run == kind])
    for number, (name, colour) in enumerate(COLOURS.items()):
        x, y = 20 + number * 190, HEIGHT + FOOT + 20
        parts.append(f'<rect x="{x}" y="{y - 11}" width="14" height="14" fill="{colour}"/>')
        parts.append(f'<text x="{x + 20}" y="{y}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(left: int, kind: str, rows: list[Row]) -> list[str]:
    parts = [f'<text class="title" x="{left}" y="24">{escape(TITLES[kind])}</text>']
    sizes = sorted({row.nodes for row in rows})
    most = max((row.wall_s for row in rows), default=1)
    base = HEIGHT + 20
    for group, size in enumerate(sizes):
        middle = left + (group + 0.5) * PANEL / len(sizes)
        for number, name in enumerate(COLOURS):
            for row in rows:
                if (row.nodes, row.contender) == (size, name):
                    parts += _bar(middle + (number - 1.5) * (BAR + 4), base, row, most, COLOURS[name])
        label = f"{size} node{'s' if size > 1 else ''}"
        parts.append(f'<text x="{middle:.0f}" y="{base + 20}" text-anchor="middle">{label}</text>')
    return parts


def _bar(x: float, base: int, row: Row, most: float, colour: str) -> list[str]:
    height = max(1.0, row.wall_s / most * (HEIGHT - 40))
    text = f"{row.wall_s:.1f}" if row.wall_s < 100 else f"{row.wall_s:.0f}"
    return [
        f'<rect x="{x:.1f}" y="{base - height:.1f}" width="{BAR}" height="{height:.1f}" fill="{colour}"/>',
        f'<text class="value" x="{x + BAR / 2:.1f}" y="{base - height - 4:.1f}" text-anchor="middle">{text}</text>',
    ]
