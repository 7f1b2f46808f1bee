"""The console's own scripts, styles and pictures, read once at the start.

Each is served under a name that has a part of its hash, so a browser keeps it for ever.
"""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

ASSETS: Final = Path(__file__).resolve().parents[1] / "assets"
_KINDS: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """One file as it is served."""

    body: bytes
    kind: str


class StaticAssets:
    """All of them, by the names under which they are served."""

    def __init__(self) -> None:
        self._served: dict[str, Asset] = {}
        self._names: dict[str, str] = {}
        for path in sorted((ASSETS / "static").iterdir()):
            if path.suffix in _KINDS:
                body = path.read_bytes()
                name = f"{path.stem}.{sha256(body).hexdigest()[:12]}{path.suffix}"
                self._served[name] = Asset(body, _KINDS[path.suffix])
                self._names[path.name] = name

    def address(self, name: str) -> str:
        """The path at which a page finds the file of this name."""
        return f"/assets/{self._names[name]}"

    def served(self, name: str) -> Asset | None:
        """The file that is asked for."""
        return self._served.get(name)
