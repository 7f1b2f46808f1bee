"""The gateway's settings: each section of `conf/distributary.toml` is a type here.

That file has each default with its unit and reason. `load_settings` makes and checks the settings.
"""

import ipaddress
from typing import Final, Literal
from urllib.parse import urlsplit

import msgspec

from distributary.pipeline.codec.amqp_types import DecodeLimits
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.model.policy import DEFAULT, DEFAULT_TOPIC, Policy, TopicPolicy
from distributary.pipeline.model.topic_pattern import PatternStyle
from distributary.pipeline.selector.parser import SelectorLimits
from distributary.pipeline.subscriptions import policy_table
from distributary.pipeline.subscriptions.quota import Quota
from distributary.pipeline.tables.upkeep.upkeep_limits import UpkeepLimits

PORT_MAX = 65_535
#: Path at which a collector takes spans by OTLP over HTTP, unless the endpoint has a path.
PATH: Final = "/v1/traces"


def _address(listen: str, key: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal():
        raise InvalidRequest(f"{key} is '{listen}': it must be HOST:PORT, such as 127.0.0.1:5672")
    if int(port) > PORT_MAX:
        raise InvalidRequest(f"{key} is '{listen}': ports end at {PORT_MAX}")
    return host.strip("[]"), int(port)


class Listen(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    listen: str
    advertise: str
    container_id: str

    @property
    def address(self) -> tuple[str, int]:
        return _address(self.listen, "gateway.listen")

    @property
    def advertised(self) -> tuple[str, int]:
        """The host and port by which other gateways reach this one."""
        if not self.advertise:
            return self.address
        return _address(self.advertise, "gateway.advertise")

    @property
    def loopback(self) -> bool:
        """Whether only processes of this machine can connect."""
        host, _ = self.address
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"


class Http(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    listen: str
    connections_max: int
    request_ms_max: int
    metrics_subscriptions_max: int

    @property
    def address(self) -> tuple[str, int]:
        return _address(self.listen, "http.listen")


class Amqp(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    message_bytes_max: int
    unfinished_bytes_max: int
    unfinished_together_bytes_max: int
    frame_bytes_max: int
    decode_values_max: int
    decode_depth_max: int
    idle_timeout_ms: int
    handshake_ms_max: int
    open_ms_max: int
    channels_max: int
    links_max: int
    name_bytes_max: int
    connections_max: int
    producer_credit: int
    unsettled_max: int
    connection_unsettled_max: int
    turn_deliveries_max: int
    write_buffer_bytes: int
    unwritten_bytes_max: int
    temporary_max: int
    queues_max: int
    queues_of_user_max: int
    subscriptions_max: int
    subscriptions_of_client_id_max: int
    transactions_max: int
    transaction_bytes_max: int
    transactions_together_bytes_max: int
    transaction_timeout_seconds: int
    prepared_max: int
    prepared_of_user_max: int
    prepared_bytes_max: int
    close_answer_ms_max: int
    bare_address: Literal["topic", "queue"]

    @property
    def decode(self) -> DecodeLimits:
        """The limits of one frame, request or command."""
        return DecodeLimits(self.decode_values_max, self.decode_depth_max)

    @property
    def quota(self) -> Quota:
        """The limits of lasting queues and subscriptions that clients make."""
        return Quota(
            self.queues_max,
            self.queues_of_user_max,
            self.subscriptions_max,
            self.subscriptions_of_client_id_max,
        )


class Ownership(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    lease_ms: int


class Fleet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    logs_max: int
    rules_max: int
    owner_wait_ms: int
    decision_ask_ms: int
    look_ms: int
    window_bytes: int
    held_bytes_max: int
    tls_ca: str
    address_retry_ms: int
    machine: str
    member_ms: int
    spread: bool
    weight: float
    spread_rest_ms: int
    partition_look_ms: int
    private_logs_max: int


class JournalLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    segment_bytes: int
    backlog_bytes_max: int
    waiting_bytes_max: int
    retry_ms: int
    durability: Literal["journal", "delta"]
    linger_ms: int
    settlement_linger_ms: int
    loop_write_bytes: int
    loop_write_us: int
    puts_max: int
    put_linger_ms: int
    put_bytes: int
    put_settlement_linger_ms: int
    put_ms_max: int


class CommitLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    interval_ms: int
    bytes: int
    retry_ms: int
    builder_groups: int


class UpkeepSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    log_entries_max: int
    log_retention_days: int
    retention_days: int
    retention_seconds: int
    retention_bytes: int
    idle_floor_sequences: int
    removed_bytes_max: int

    @property
    def limits(self) -> UpkeepLimits:
        return UpkeepLimits(
            self.log_entries_max,
            self.log_retention_days,
            self.retention_days,
            self.removed_bytes_max,
            self.retention_seconds,
            self.retention_bytes,
        )


class Tables(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    url: str
    storage_options: dict[str, str]


class DeliveryLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    cache_bytes: int
    memory_bytes_max: int
    page_bytes: int
    page_retry_ms: int
    selector_chars_max: int
    selector_depth_max: int
    selector_passes_max: int
    expiry_scan_ms: int
    turn_subscriptions_max: int
    policies: str
    duplicates_max: int
    hint_matches_max: int
    pattern_style: PatternStyle

    @property
    def selector(self) -> SelectorLimits:
        chars_max, depth_max = self.selector_chars_max, self.selector_depth_max
        return SelectorLimits(chars_max, depth_max, self.selector_passes_max)


class ManagementLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    request_bytes_max: int
    requests_max: int
    replies_bytes_max: int
    replies_together_bytes_max: int
    query_count_max: int
    list_wait_ms: int
    held_count_max: int
    holders_max: int
    acquire_max: int
    acquire_wait_ms_max: int
    acquire_linger_ms_max: int


class LogLines(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    lines_max: int
    window_ms: int
    file: str


class Traces(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    endpoint: str
    spans_per_second_max: int
    spans_max: int
    deliveries_max: int
    follow_seconds: int
    export_ms_max: int

    @property
    def url(self) -> str:
        """The URL for spans: the endpoint, with OTLP's own path if it has none. Raises
        InvalidRequest."""
        try:
            parts = urlsplit(self.endpoint)
            known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            known = None
        if not known:
            raise InvalidRequest(
                f"traces.endpoint is '{self.endpoint}': it must be a collector's URL, such as "
                "http://127.0.0.1:4318"
            )
        return self.endpoint if parts.path.strip("/") else parts._replace(path=PATH).geturl()


class SchemaSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    definition_bytes_max: int
    columns_max: int
    depth_max: int
    versions_max: int
    waiting_bytes_max: int
    check_ms_max: int
    process_bytes_max: int


class Security(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    users: str
    permissions: str
    client_ids: str
    anonymous: bool | Literal["loopback"]
    password_checks_max: int
    tls_certificate: str
    tls_key: str
    tls_client_ca: str


Value = bool | int | float | str


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All settings; only `load_settings.load` makes them, so they are always checked."""

    gateway: Listen
    http: Http
    owner: Ownership
    fleet: Fleet
    amqp: Amqp
    journal: JournalLimits
    commit: CommitLimits
    upkeep: UpkeepSettings
    tables: Tables
    delivery: DeliveryLimits
    subscription: dict[str, Value]
    topic: dict[str, Value]
    management: ManagementLimits
    log: LogLines
    traces: Traces
    schemas: SchemaSettings
    security: Security

    @property
    def policy(self) -> Policy:
        """The default policy of subscriptions."""
        return policy_table.over(DEFAULT, self.subscription, "settings: [subscription]")

    @property
    def topic_policy(self) -> TopicPolicy:
        """The default policy of topics and queues."""
        return policy_table.topic_over(DEFAULT_TOPIC, self.topic, "settings: [topic]")

    @property
    def anonymous(self) -> bool:
        """Whether peers may connect without logging in."""
        chosen = self.security.anonymous
        return self.gateway.loopback if chosen == "loopback" else chosen
