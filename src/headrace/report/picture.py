"""A figure and its table as a file: PNG, or an HTML page that is whole by itself."""

from __future__ import annotations

import html
import io
from pathlib import Path
from typing import Any

from headrace.errors import ConfigError, DataError

_STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#24292f}
svg{width:100%;height:auto}table{border-collapse:collapse}td,th{padding:.25rem .8rem;text-align:left;
border-bottom:1px solid #e3e6e9}"""


def check_suffix(path: Path) -> None:
    """Raise ``ConfigError`` unless the file is a .png or an .html."""
    if path.suffix not in (".png", ".html"):
        raise ConfigError(f"--plot {path}: the file must end in .png or .html")


def save_picture(path: Path, figure: Any, *, title: str, table: str) -> None:
    """Write a matplotlib figure. ``table`` are HTML rows (escaped by the caller) that stand below it in a page.

    Raises ``DataError`` when the file cannot be written.
    """
    try:
        if path.suffix == ".png":
            figure.savefig(path, format="png")
        else:
            path.write_text(_page(figure, title, table), encoding="utf-8")
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}") from None


def _page(figure: Any, title: str, table: str) -> str:
    picture = io.StringIO()
    figure.savefig(picture, format="svg")
    svg = picture.getvalue()
    title = html.escape(title)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>{_STYLE}</style></head><body>
<h1>{title}</h1>
{svg[svg.index("<svg") :]}
<table>{table}</table></body></html>
"""
