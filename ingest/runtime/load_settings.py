"""The gateway's settings: `conf/distributary.toml`, then a file, then the environment, then flags.

Unknown keys and values that can't go together stop the start with one sentence.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from types import UnionType
from typing import Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from distributary.ingest.runtime import budgets, number_rules
from distributary.ingest.runtime.settings import Amqp, DeliveryLimits, Settings, Traces
from distributary.pipeline.codec.amqp_types import DEPTH_MAX as NESTING_MAX
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.fleet.members import PERIOD_MS_MAX, PERIOD_MS_MIN, WEIGHT_MAX
from distributary.pipeline.model.layered_settings import Tree, merge
from distributary.pipeline.object_journal.put_window import WINDOW_MAX
from distributary.pipeline.selector.parser import CHARS_MAX, DEPTH_MAX, PASSES_MAX
from distributary.pipeline.subscriptions import policy_table

#: The variable by which commands find the gateway; it looks like a setting, but is none.
OF_CLIENTS = "DISTRIBUTARY_GATEWAY"

#: The layer of variables, and how their names begin.
_ENVIRONMENT, _PREFIX = "the environment", "DISTRIBUTARY_"
#: A key in a sentence: `section.key`, or `[section]: key`.
_KEY = re.compile(r"(\w+)(?:\.|\]: )(\w+)")


def load(
    file: Path | None = None,
    environment: Mapping[str, str] = os.environ,
    flags: Mapping[str, object] | None = None,
) -> Settings:
    """Load the settings in force. `flags` maps `section.key` to a value; None means not given.

    Raises InvalidRequest that names the file, the key and the fault.
    """
    tree: Tree = {section: dict(values) for section, values in _built_in().items()}
    layers = {str(file): _read(file)} if file is not None else {}
    layers[_ENVIRONMENT] = _from_environment(tree, environment)
    layers["the command line"] = _from_flags(flags or {})
    for source, layer in layers.items():
        merge(tree, layer, source)
    try:
        settings = msgspec.convert(tree, Settings)
    except msgspec.ValidationError as error:
        said, _, place = str(error).partition(" - at ")
        key = place.strip("`").removeprefix("$.")
        text = f"{key}: {said[:1].lower()}{said[1:]}{_choices(key)}"
        raise InvalidRequest(f"{_source(layers, text)}: {text}") from None
    try:
        _check(settings)
    except InvalidRequest as error:
        raise InvalidRequest(f"{_source(layers, str(error))}: {error}") from None
    return settings


@cache
def _built_in() -> Tree:
    """Read the built-in settings, once: a third of the work here. Don't change the result."""
    file = resources.files("distributary.conf").joinpath("distributary.toml")
    return tomllib.loads(file.read_text())


def _choices(key: str) -> str:
    """Return the end of an error about a setting that takes certain words: the list of them."""
    section, _, name = key.partition(".")
    kind = get_type_hints(get_type_hints(Settings).get(section, Settings)).get(name)
    kinds = get_args(kind) if isinstance(kind, UnionType) or get_origin(kind) is Union else (kind,)
    words = [f'"{word}"' for one in kinds if get_origin(one) is Literal for word in get_args(one)]
    if not words:
        return ""
    truths = ["true", "false"] if bool in kinds else []
    return f"; it may be {' or '.join(words + truths)}"


def _source(layers: dict[str, Tree], sentence: str) -> str:
    """Return the source of the first key that a sentence names: the last layer that has the key, or
    its section."""
    keys = [*_KEY.findall(sentence), *((word, "") for word in re.findall(r"\w+", sentence))]
    for section, key in keys:
        for source in reversed(layers):
            if section in layers[source] and (not key or key in layers[source][section]):
                return _variable(section, key) if source == _ENVIRONMENT and key else source
    return "settings"


def _variable(section: str, key: str) -> str:
    """Return the name of a setting in the environment."""
    return f"{_PREFIX}{section}_{key}".upper()


def _read(file: Path) -> Tree:
    try:
        return tomllib.loads(file.read_text())
    except OSError as error:
        raise InvalidRequest(f"settings file {file} can't be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"settings file {file} is not TOML: {error}") from None


def _from_environment(tree: Tree, environment: Mapping[str, str]) -> Tree:
    found: Tree = {}
    for name, text in environment.items():
        section, _, key = name.removeprefix(_PREFIX).lower().partition("_")
        if name == OF_CLIENTS:
            continue
        if name.startswith(_PREFIX) and section in tree:
            if key not in tree[section]:
                known = ", ".join(tree[section])
                raise InvalidRequest(f"{name}: unknown key {section}.{key}; there are {known}")
            found.setdefault(section, {})[key] = _typed(text)
    return found


def _from_flags(flags: Mapping[str, object]) -> Tree:
    found: Tree = {}
    for name, value in flags.items():
        if value is not None:
            section, _, key = name.partition(".")
            found.setdefault(section, {})[key] = value
    return found


def _typed(text: str) -> object:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _check(settings: Settings) -> None:
    """Check each limit by itself, and limits that must fit together. Raises InvalidRequest."""
    amqp, commit = settings.amqp, settings.commit
    _ = settings.gateway.address, settings.gateway.advertised, settings.topic_policy
    policy_table.check(settings.policy, "[subscription]")
    if settings.http.listen:
        _ = settings.http.address
    if settings.traces.endpoint:
        _ = settings.traces.url
    rules = (
        (amqp.frame_bytes_max >= 512, "amqp.frame_bytes_max must be 512 at least (AMQP 2.7.1)"),
        (amqp.decode_values_max >= 64, "amqp.decode_values_max must be 64 at least: an attach"),
        (
            8 <= amqp.decode_depth_max <= NESTING_MAX,
            f"amqp.decode_depth_max must be from 8 to {NESTING_MAX}",
        ),
        (settings.http.connections_max >= 1, "http.connections_max must be positive"),
        (settings.http.request_ms_max >= 100, "http.request_ms_max must be 100 at least"),
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
        (settings.fleet.logs_max >= 1, "fleet.logs_max must be positive"),
        (
            settings.fleet.address_retry_ms >= 100,
            "fleet.address_retry_ms must be 100 at least: each attempt may be a put",
        ),
        (
            PERIOD_MS_MIN <= settings.fleet.member_ms <= PERIOD_MS_MAX,
            f"fleet.member_ms must be from {PERIOD_MS_MIN} to {PERIOD_MS_MAX}: each is a write",
        ),
        (
            0 <= settings.fleet.weight <= WEIGHT_MAX,
            f"fleet.weight must be from 0 to {WEIGHT_MAX}",
        ),
        *amqp.quota.rules(),
        (amqp.idle_timeout_ms >= 1_000, "amqp.idle_timeout_ms must be 1000 at least"),
        *_journal_rules(settings),
        (commit.interval_ms >= 10, "commit.interval_ms must be 10 at least"),
        *number_rules.rules(settings),
        *budgets.rules(settings),
        *_delivery_rules(settings.delivery),
        *_management_rules(settings),
        *_transaction_rules(amqp),
        *_login_rules(settings),
        *_trace_rules(settings.traces),
    )
    for holds, sentence in rules:
        if not holds:
            raise InvalidRequest(sentence)


def _journal_rules(settings: Settings) -> tuple[tuple[bool, str], ...]:
    journal = settings.journal
    return (
        (journal.segment_bytes >= 1 << 20, "journal.segment_bytes must be 1 MiB at least"),
        (
            journal.backlog_bytes_max >= 2 * settings.commit.bytes,
            "journal.backlog_bytes_max must be twice commit.bytes at least, or each commit halts",
        ),
        (journal.waiting_bytes_max >= 1, "journal.waiting_bytes_max must be positive"),
        (
            0 <= journal.linger_ms <= 1_000,
            "journal.linger_ms must be from 0 to 1000: every accept waits for it",
        ),
        (
            0 <= journal.settlement_linger_ms <= 1_000,
            "journal.settlement_linger_ms must be from 0 to 1000: a crash forgets what waits",
        ),
        (
            0 <= journal.loop_write_bytes <= 1 << 20,
            "journal.loop_write_bytes must be from 0 to 1048576: the loop does nothing else then",
        ),
        (
            1 <= journal.loop_write_us <= 5_000,
            "journal.loop_write_us must be from 1 to 5000: the loop does nothing else then",
        ),
        (
            1 <= journal.puts_max <= WINDOW_MAX,
            f"journal.puts_max must be from 1 to {WINDOW_MAX}",
        ),
        (
            0 <= journal.put_linger_ms <= 1_000,
            "journal.put_linger_ms must be from 0 to 1000: every accept waits for it",
        ),
        (
            65_536 <= journal.put_bytes <= 1_073_741_824,
            "journal.put_bytes must be from 65536 to 1073741824: each group is a put",
        ),
        (
            0 <= journal.put_settlement_linger_ms <= 1_000,
            "journal.put_settlement_linger_ms must be from 0 to 1000: a crash forgets what waits",
        ),
        (
            100 <= journal.put_ms_max <= 60_000,
            "journal.put_ms_max must be from 100 to 60000",
        ),
        (
            journal.backlog_bytes_max >= 2 * settings.amqp.message_bytes_max,
            "journal.backlog_bytes_max must be twice amqp.message_bytes_max at least",
        ),
    )


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
        (management.list_wait_ms >= 1, "management.list_wait_ms must be positive"),
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


def _trace_rules(traces: Traces) -> tuple[tuple[bool, str], ...]:
    return (
        (
            2 <= traces.spans_per_second_max <= 100_000,
            "traces.spans_per_second_max must be from 2 to 100000: a delivery has two",
        ),
        (traces.spans_max >= 1, "traces.spans_max must be positive"),
        (traces.deliveries_max >= 1, "traces.deliveries_max must be positive"),
        (traces.follow_seconds >= 1, "traces.follow_seconds must be positive"),
        (traces.export_ms_max >= 100, "traces.export_ms_max must be 100 at least"),
    )


def _login_rules(settings: Settings) -> tuple[tuple[bool, str], ...]:
    """Return the rules of `[security]`: keys that go together, and that at least one user can log
    in."""
    security = settings.security
    return (
        (
            bool(security.tls_certificate) == bool(security.tls_key),
            "security.tls_certificate and security.tls_key go together",
        ),
        (
            bool(security.tls_certificate) or not security.tls_client_ca,
            "security.tls_client_ca needs security.tls_certificate: certificates come by TLS",
        ),
        (
            bool(security.permissions) or not security.client_ids,
            "security.client_ids needs security.permissions: without them every user manages all",
        ),
        (security.password_checks_max >= 1, "security.password_checks_max must be positive"),
        (
            bool(security.users or security.tls_client_ca) or settings.anonymous,
            (
                f"no user could log in at {settings.gateway.listen}: name security.users or "
                "security.tls_client_ca, or set security.anonymous = true to admit every client"
            ),
        ),
    )
