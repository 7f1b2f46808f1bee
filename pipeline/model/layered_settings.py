"""Settings in layers: defaults, and what is said over them, section by section.

The defaults name all sections and keys that there are.
"""

from collections.abc import Mapping
from typing import TypeAlias

from distributary.pipeline.errors import InvalidRequest

Tree: TypeAlias = dict[str, dict[str, object]]


def merge(tree: Tree, other: Mapping[str, object], source: str) -> None:
    """Lay `other` over `tree`. Raises InvalidRequest: `source` has a key that there isn't."""
    for section, values in other.items():
        if section not in tree or not isinstance(values, dict):
            known = ", ".join(tree)
            raise InvalidRequest(f"{source}: unknown section [{section}]; there are {known}")
        for key, value in values.items():
            if key not in tree[section]:
                known = ", ".join(tree[section])
                raise InvalidRequest(f"{source}: unknown key {section}.{key}; there are {known}")
            tree[section][key] = value
