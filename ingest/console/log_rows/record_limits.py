"""How much one request to the tables may read and show."""

import msgspec


class RecordLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The limits of one request; `conf/console.toml`, `[records]`, has their defaults and says why
    each is as it is. Bytes that are read are those of the columns, uncompressed."""

    read_bytes_max: int
    page_bytes_max: int
    page_messages: int
    selected_messages_max: int
    body_bytes_max: int
    body_nodes_max: int
    lanes_max: int
    ranges_max: int
    requests_together: int
    audits_shown: int
