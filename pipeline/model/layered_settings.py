"""Settings in layers: defaults, and values that override them, section by section.

The defaults have all known sections and keys.
"""

from collections.abc import Mapping
from typing import TypeAlias

from distributary.pipeline.errors import InvalidRequest

Tree: TypeAlias = dict[str, dict[str, object]]


def merge(tree: Tree, other: Mapping[str, object], source: str) -> None:
    """Override values of `tree` by those of `other`. Raises InvalidRequest for an unknown key."""
    for section, values in other.items():
        if section not in tree or not isinstance(values, dict):
            known = ", ".join(tree)
            raise InvalidRequest(f"{source}: unknown section [{section}]; there are {known}")
        for key, value in values.items():
            if key not in tree[section]:
                known = ", ".join(tree[section])
                raise InvalidRequest(f"{source}: unknown key {section}.{key}; there are {known}")
            tree[section][key] = value
