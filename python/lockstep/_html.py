"""Answers as small HTML for notebooks. Every text is escaped."""

from __future__ import annotations

import html
from typing import Any, Sequence

_STYLE = "text-align:{};padding:.1em .6em"


def escape(value: Any) -> str:
    return html.escape(str(value))


def seconds(value: float | None) -> str:
    if value is None:
        return ""
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if abs(value) * factor >= 1 or unit == "µs":
            return f"{value * factor:.4g} {unit}"
    return ""


def gib(value: float | None) -> str:
    return "" if value is None else f"{value / 2**30:.1f} GiB"


def percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    return escape(value)


def table(titles: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Cells that are numbers stand to the right."""
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    body = ""
    for row in rows:
        cells = ""
        for value in row:
            side = "right" if isinstance(value, (int, float)) and not isinstance(value, bool) else "left"
            cells += f'<td style="{_STYLE.format(side)}">{_cell(value)}</td>'
        body += f"<tr>{cells}</tr>"
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def page(title: str, *parts: str) -> str:
    """A title and what stands below it; parts are HTML but for the empty ones."""
    return "<div>" + (f"<b>{escape(title)}</b>" if title else "") + "".join(f"<div>{part}</div>" for part in parts if part) + "</div>"


def bars(parts: Sequence[tuple[str, float, float]], whole: float) -> str:
    """Label, exposed and hidden seconds as bars of the whole."""
    rows = ""
    for label, exposed, hidden in parts:
        width = 100 * exposed / whole if whole > 0 else 0
        bar = f'<div style="background:#47a;height:.8em;width:{min(width, 100):.2f}%"></div>'
        rows += (f'<tr><td style="{_STYLE.format("left")}">{escape(label)}</td>'
                 f'<td style="{_STYLE.format("right")}">{seconds(exposed)}</td>'
                 f'<td style="{_STYLE.format("right")}">{seconds(hidden) if hidden else ""}</td>'
                 f'<td style="width:20em;text-align:left">{bar}</td></tr>')
    return f"<table><thead><tr><th>part</th><th>exposed</th><th>hidden</th><th></th></tr></thead><tbody>{rows}</tbody></table>"
