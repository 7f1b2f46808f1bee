"""How much one request to the tables may read and show."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RecordLimits:
    """The limits of one request; `conf/distributary.toml`, `[console]`, says why each is as it is.

    Bytes that are read are those of the columns, uncompressed.
    """

    read_bytes_max: int = 256 << 20
    page_bytes_max: int = 48 << 20
    page_messages: int = 50
    selected_messages_max: int = 20_000
    body_bytes_max: int = 64 << 10
    body_nodes_max: int = 2_000
    lanes_max: int = 100
    ranges_max: int = 200


DEFAULT_LIMITS = RecordLimits()
