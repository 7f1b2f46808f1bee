"""The client's settings: `conf/client.toml`, and the arguments of `connect` that replace them."""

import tomllib
from functools import cache
from importlib import resources

import msgspec

from distributary.pipeline.errors import InvalidRequest


class ConnectionSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    open_seconds: float
    close_seconds: float
    idle_timeout_ms: int
    frame_bytes_max: int
    message_bytes_max: int
    scram_iterations_max: int


class ReconnectSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    first_ms: int
    longest_ms: int
    jitter: float
    give_up_seconds: float


class ConsumerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    prefetch: int


class PublisherSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    window_messages: int
    window_bytes: int
    links_max: int


class ClientSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All settings; `defaults` reads those of the file."""

    connection: ConnectionSettings
    reconnect: ReconnectSettings
    consumer: ConsumerSettings
    publisher: PublisherSettings

    def having(
        self,
        *,
        prefetch: int | None,
        window_messages: int | None,
        open_seconds: float | None,
        give_up_seconds: float | None,
    ) -> "ClientSettings":
        """Return these settings with the given values replaced. Raises InvalidRequest."""
        given = (
            ("consumer", "prefetch", prefetch),
            ("publisher", "window_messages", window_messages),
            ("connection", "open_seconds", open_seconds),
            ("reconnect", "give_up_seconds", give_up_seconds),
        )
        changed = self
        for section, key, value in given:
            if value is None:
                continue
            if value < (0 if key == "give_up_seconds" else 1e-3):
                raise InvalidRequest(f"{key} can't be {value}: it is a number above 0")
            part = msgspec.structs.replace(getattr(changed, section), **{key: value})
            changed = msgspec.structs.replace(changed, **{section: part})
        return changed


@cache
def defaults() -> ClientSettings:
    """Return the settings of `conf/client.toml`."""
    text = resources.files("distributary.conf").joinpath("client.toml").read_text()
    return msgspec.convert(tomllib.loads(text), ClientSettings)
