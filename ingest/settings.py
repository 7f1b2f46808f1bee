"""The gateway's settings: `conf/distributary.toml`, then a file, then the environment, then flags.

Each has its unit and reason where its default stands. Unknown keys and values that can't go
together stop the start with one sentence.
"""

import ipaddress
import os
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Literal

import msgspec

from ingest import budgets, login_rules
from pipeline import policy_table
from pipeline.amqp_types import DEPTH_MAX as NESTING_MAX
from pipeline.amqp_types import DecodeLimits
from pipeline.errors import InvalidRequest
from pipeline.layers import Tree, merge
from pipeline.policy import DEFAULT, DEFAULT_TOPIC, Policy, TopicPolicy
from pipeline.selector.parser import CHARS_MAX, DEPTH_MAX, PASSES_MAX, SelectorLimits
from pipeline.subscriptions.quota import Quota
from pipeline.tables.limits import UpkeepLimits

#: Says commands where the gateway is; no setting of its own, though it looks like one.
OF_CLIENTS = "DISTRIBUTARY_GATEWAY"


class Listen(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    listen: str
    container_id: str

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.listen.rpartition(":")
        if not host or not port.isdigit() or not 0 <= int(port) <= 65_535:
            raise InvalidRequest(f"gateway.listen is '{self.listen}': it must be HOST:PORT")
        return host.strip("[]"), int(port)

    @property
    def loopback(self) -> bool:
        """Whether only processes of this machine can connect."""
        host, _ = self.address
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"


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
    bare_address: Literal["topic", "queue"]

    @property
    def decode(self) -> DecodeLimits:
        """What one frame, request or command may bring."""
        return DecodeLimits(self.decode_values_max, self.decode_depth_max)

    @property
    def quota(self) -> Quota:
        """What clients may make that lasts."""
        return Quota(
            self.queues_max,
            self.queues_of_user_max,
            self.subscriptions_max,
            self.subscriptions_of_client_id_max,
        )


class Ownership(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    lease_ms: int


class JournalLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    segment_bytes: int
    backlog_bytes_max: int
    waiting_bytes_max: int
    retry_ms: int
    durability: Literal["journal", "delta"]
    linger_ms: int


class CommitLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    interval_ms: int
    bytes: int
    retry_ms: int


class UpkeepSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    log_entries_max: int
    log_retention_days: int
    retention_days: int
    idle_floor_sequences: int
    removed_bytes_max: int

    @property
    def limits(self) -> UpkeepLimits:
        return UpkeepLimits(
            self.log_entries_max,
            self.log_retention_days,
            self.retention_days,
            self.removed_bytes_max,
        )


class Tables(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    url: str
    storage_options: dict[str, str]


class DeliveryLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    cache_bytes: int
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
    held_count_max: int
    holders_max: int
    acquire_max: int
    acquire_wait_ms_max: int
    acquire_linger_ms_max: int


class LogLines(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    lines_max: int
    window_ms: int


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
    """All settings; `load` is the only way to make one, so it is always checked."""

    gateway: Listen
    owner: Ownership
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
    security: Security

    @property
    def policy(self) -> Policy:
        """How subscriptions deliver of which nobody says anything else."""
        return policy_table.over(DEFAULT, self.subscription, "settings: [subscription]")

    @property
    def topic_policy(self) -> TopicPolicy:
        """What holds for topics and queues of which nobody says anything else."""
        return policy_table.topic_over(DEFAULT_TOPIC, self.topic, "settings: [topic]")

    @property
    def anonymous(self) -> bool:
        """Whether peers may come without saying who they are."""
        chosen = self.security.anonymous
        return self.gateway.loopback if chosen == "loopback" else chosen


def load(
    file: Path | None = None,
    environment: Mapping[str, str] = os.environ,
    flags: Mapping[str, object] | None = None,
) -> Settings:
    """The settings in force. `flags` maps `section.key` to a value; None means not given.

    Raises InvalidRequest naming the file, the key and what is wrong.
    """
    tree: Tree = tomllib.loads(resources.files("conf").joinpath("distributary.toml").read_text())
    if file is not None:
        merge(tree, _read(file), str(file))
    merge(tree, _from_environment(tree, environment), "the environment")
    for name, value in (flags or {}).items():
        if value is not None:
            section, _, key = name.partition(".")
            tree[section][key] = value
    try:
        settings = msgspec.convert(tree, Settings)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"settings: {error}") from None
    _check(settings)
    return settings


def _read(file: Path) -> Tree:
    try:
        return tomllib.loads(file.read_text())
    except OSError as error:
        raise InvalidRequest(f"settings file {file} can't be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"settings file {file} is not TOML: {error}") from None


def _from_environment(tree: Tree, environment: Mapping[str, str]) -> Tree:
    found: Tree = {}
    prefix = "DISTRIBUTARY_"
    for name, text in environment.items():
        section, _, key = name.removeprefix(prefix).lower().partition("_")
        if name == OF_CLIENTS:
            continue
        if name.startswith(prefix) and section in tree:
            found.setdefault(section, {})[key] = _typed(text)
    return found


def _typed(text: str) -> object:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _check(settings: Settings) -> None:
    """Each limit alone, and those that must fit together."""
    amqp, journal, commit = settings.amqp, settings.journal, settings.commit
    _ = settings.gateway.address, settings.topic_policy
    policy_table.check(settings.policy, "settings: [subscription]")
    rules = (
        (amqp.frame_bytes_max >= 512, "amqp.frame_bytes_max must be 512 at least (AMQP 2.7.1)"),
        (amqp.decode_values_max >= 64, "amqp.decode_values_max must be 64 at least: an attach"),
        (
            8 <= amqp.decode_depth_max <= NESTING_MAX,
            f"amqp.decode_depth_max must be from 8 to {NESTING_MAX}",
        ),
        (amqp.message_bytes_max >= 1, "amqp.message_bytes_max must be positive"),
        (amqp.message_bytes_max < 1 << 30, "amqp.message_bytes_max must be below 1 GiB"),
        (
            amqp.unfinished_bytes_max >= amqp.message_bytes_max,
            "amqp.unfinished_bytes_max must be amqp.message_bytes_max at least",
        ),
        (1 <= amqp.channels_max <= 32_767, "amqp.channels_max must be from 1 to 32767"),
        (amqp.write_buffer_bytes >= 1, "amqp.write_buffer_bytes must be positive"),
        (amqp.temporary_max >= 1, "amqp.temporary_max must be positive"),
        (amqp.handshake_ms_max >= 1, "amqp.handshake_ms_max must be positive"),
        (
            settings.owner.lease_ms >= 600,
            "owner.lease_ms must be 600 at least: a sign of life is due six times in it",
        ),
        (
            amqp.open_ms_max >= amqp.handshake_ms_max,
            "amqp.open_ms_max must be amqp.handshake_ms_max at least",
        ),
        *amqp.quota.rules(),
        (amqp.idle_timeout_ms >= 1_000, "amqp.idle_timeout_ms must be 1000 at least"),
        (journal.segment_bytes >= 1 << 20, "journal.segment_bytes must be 1 MiB at least"),
        (
            journal.backlog_bytes_max >= 2 * commit.bytes,
            "journal.backlog_bytes_max must be twice commit.bytes at least, or each commit halts",
        ),
        (journal.waiting_bytes_max >= 1, "journal.waiting_bytes_max must be positive"),
        (
            0 <= journal.linger_ms <= 1_000,
            "journal.linger_ms must be from 0 to 1000: every accept waits for it",
        ),
        (
            journal.backlog_bytes_max >= 2 * amqp.message_bytes_max,
            "journal.backlog_bytes_max must be twice amqp.message_bytes_max at least",
        ),
        (commit.interval_ms >= 10, "commit.interval_ms must be 10 at least"),
        *budgets.rules(settings),
        *_delivery_rules(settings.delivery),
        *_management_rules(settings),
        *_transaction_rules(amqp),
        *login_rules.rules(settings),
    )
    for holds, sentence in rules:
        if not holds:
            raise InvalidRequest(f"settings: {sentence}")


def _delivery_rules(delivery: DeliveryLimits) -> tuple[tuple[bool, str], ...]:
    return (
        (delivery.expiry_scan_ms >= 10, "delivery.expiry_scan_ms must be 10 at least"),
        (delivery.page_bytes >= 4_096, "delivery.page_bytes must be 4096 at least"),
        (delivery.page_retry_ms >= 10, "delivery.page_retry_ms must be 10 at least"),
        (
            1 <= delivery.selector_chars_max <= CHARS_MAX,
            f"delivery.selector_chars_max must be from 1 to {CHARS_MAX}",
        ),
        (
            1 <= delivery.selector_depth_max <= DEPTH_MAX,
            f"delivery.selector_depth_max must be from 1 to {DEPTH_MAX}",
        ),
        (
            1 <= delivery.selector_passes_max <= PASSES_MAX,
            f"delivery.selector_passes_max must be from 1 to {PASSES_MAX}",
        ),
        (delivery.duplicates_max >= 1, "delivery.duplicates_max must be positive"),
        (delivery.hint_matches_max >= 0, "delivery.hint_matches_max must not be negative"),
    )


def _management_rules(settings: Settings) -> tuple[tuple[bool, str], ...]:
    management = settings.management
    return (
        (management.request_bytes_max >= 512, "management.request_bytes_max must be 512 at least"),
        (management.requests_max >= 1, "management.requests_max must be positive"),
        (settings.log.lines_max >= 1, "log.lines_max must be positive"),
        (settings.log.window_ms >= 100, "log.window_ms must be 100 at least"),
        (management.replies_bytes_max >= 1, "management.replies_bytes_max must be positive"),
        (management.query_count_max >= 1, "management.query_count_max must be positive"),
        (management.held_count_max >= 1, "management.held_count_max must be positive"),
        (management.holders_max >= 1, "management.holders_max must be positive"),
        (management.acquire_max >= 1, "management.acquire_max must be positive"),
        (management.acquire_wait_ms_max >= 0, "management.acquire_wait_ms_max is negative"),
        (management.acquire_linger_ms_max >= 0, "management.acquire_linger_ms_max is negative"),
    )


def _transaction_rules(amqp: Amqp) -> tuple[tuple[bool, str], ...]:
    return (
        (amqp.transactions_max >= 1, "amqp.transactions_max must be positive"),
        (amqp.transaction_bytes_max >= 1, "amqp.transaction_bytes_max must be positive"),
        (
            amqp.transaction_timeout_seconds >= 1,
            "amqp.transaction_timeout_seconds must be positive",
        ),
    )
