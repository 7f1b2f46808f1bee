"""Pages from templates. Everything that a template writes is escaped; a name that it doesn't know
is an error."""

from collections.abc import Mapping
from functools import cache
from types import CodeType
from urllib.parse import urlencode

from jinja2 import BytecodeCache, Environment, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket

from distributary.ingest.console.insight import spoken_numbers
from distributary.ingest.console.web.static_assets import ASSETS, StaticAssets


class _Compiled(BytecodeCache):
    """Templates that this process has compiled. Compiling takes most of a second; a process forked
    afterwards needn't do it again."""

    def __init__(self) -> None:
        self._codes: dict[str, CodeType] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = self._codes.get(bucket.key)

    def dump_bytecode(self, bucket: Bucket) -> None:
        if bucket.code is not None:
            self._codes[bucket.key] = bucket.code


@cache
def _compiled() -> _Compiled:
    return _Compiled()


class Templates:
    """The templates of `assets/templates`, compiled at the start: no page waits for that."""

    def __init__(self, assets: StaticAssets) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(ASSETS / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
            bytecode_cache=_compiled(),
        )
        self._environment.filters |= {
            "number": spoken_numbers.number,
            "size": spoken_numbers.size,
            "age": spoken_numbers.age,
            "ms": spoken_numbers.milliseconds,
            "moment": spoken_numbers.moment,
            "share": spoken_numbers.share,
            "instant": spoken_numbers.instant,
            "span": spoken_numbers.span,
            "messages": spoken_numbers.messages,
        }
        self._environment.globals |= {"asset": assets.address, "link": link}  # a visit has its own
        for name in self._environment.list_templates():
            self._environment.get_template(name)

    def render(self, template: str, values: Mapping[str, object]) -> str:
        """The text of a page or of a part of one."""
        return self._environment.get_template(template).render(values)


def link(path: str, values: Mapping[str, object] | None = None) -> str:
    """An address of the console: a path and its parameters, without those that are None."""
    said = {key: value for key, value in (values or {}).items() if value is not None}
    return f"{path}?{urlencode(said)}" if said else path
