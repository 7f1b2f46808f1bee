"""Settings: where they come from, and what stops the start."""

import re
from pathlib import Path

import pytest

from distributary.ingest.runtime.budgets import together
from distributary.ingest.runtime.load_settings import load
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.model.policy import DEFAULT, DEFAULT_TOPIC, Backlog, Policy, TopicPolicy


def test_defaults_hold_without_a_file() -> None:
    """The shipped defaults are complete and fit together."""
    assert load(environment={}).gateway.address == ("127.0.0.1", 5672)


def test_the_page_of_limits_has_their_sum() -> None:
    """As it is computed from the defaults."""
    page = Path(__file__).parents[3].joinpath("docs", "limits.md").read_text()
    sums = together(load(environment={}))
    names = "the gateway|and a connection|and its deliveries"
    said = dict(re.findall(rf"^    ({names}) +(\d+) MiB", page, re.MULTILINE))
    assert said == {
        "the gateway": str(sums.gateway >> 20),
        "and a connection": str(sums.connection >> 20),
        "and its deliveries": str(sums.unsettled >> 20),
    }


def test_the_policies_of_the_shipped_defaults_ask_nothing() -> None:
    """They are what the pure part has by itself, and every key of it stands there."""
    settings = load(environment={})
    assert (settings.policy, settings.topic_policy) == (DEFAULT, DEFAULT_TOPIC)
    assert len(settings.subscription) == len(Policy.__struct_fields__) - 1 + len(
        Backlog.__struct_fields__
    )
    assert len(settings.topic) == len(TopicPolicy.__struct_fields__) - 1 + len(
        Backlog.__struct_fields__
    )


def test_a_flag_beats_the_environment_beats_a_file(tmp_path: Path) -> None:
    """The nearer to the person who types, the stronger."""
    file = tmp_path / "gateway.toml"
    file.write_text('[gateway]\nlisten = "127.0.0.1:1"\n[commit]\nbytes = 1000\ninterval_ms = 20')
    environment = {"DISTRIBUTARY_GATEWAY_LISTEN": "127.0.0.1:2", "DISTRIBUTARY_COMMIT_BYTES": "7"}
    settings = load(file, environment, {"gateway.listen": "127.0.0.1:3"})
    assert settings.gateway.listen == "127.0.0.1:3"
    assert settings.commit.bytes == 7
    assert settings.commit.interval_ms == 20
    assert load(file, environment).gateway.listen == "127.0.0.1:2"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[amqp]\nspeed = 1", "unknown key amqp.speed"),
        ("[amqp]\nname_bytes_max = 10", "amqp.name_bytes_max must be 64 at least"),
        ("[amqp]\nturn_deliveries_max = 0", "amqp.turn_deliveries_max must be positive"),
        ("[delivery]\nturn_subscriptions_max = 0", "turn_subscriptions_max must be positive"),
        ("[commit]\nbytes = 1073741824\n[journal]\nbacklog_bytes_max = 3000000000", "1024 MiB"),
        ("[speed]\nx = 1", r"unknown section \[speed\]"),
        ('[amqp]\nproducer_credit = "many"', "producer_credit"),
        ("[amqp]\nproducer_credit = 0", "producer_credit must be positive"),
        ("[delivery]\nselector_chars_max = 0", "selector_chars_max must be from 1 to 65536"),
        ("[delivery]\nselector_chars_max = 65537", "selector_chars_max must be from 1 to 65536"),
        ("[delivery]\nselector_depth_max = 129", "selector_depth_max must be from 1 to 128"),
        ("[journal]\nbacklog_bytes_max = 1000000", "twice commit.bytes"),
        ('[gateway]\nlisten = "5672"', "HOST:PORT"),
        ('[journal]\ndurability = "paper"', "durability"),
        ("[journal]\nlinger_ms = 5000", "linger_ms must be from 0 to 1000"),
        ("[owner]\nlease_ms = 100", "lease_ms must be 600 at least"),
        ("[amqp]\nlinks_max = 0", "links_max must be positive"),
        ('[security]\ntls_key = "k.pem"', "go together"),
        ('[security]\ntls_client_ca = "c.pem"', "needs security.tls_certificate"),
        ('[security]\nanonymous = "always"', "anonymous"),
        ("[security]\nanonymous = false", "no user could log in"),
        ('[gateway]\nlisten = "0.0.0.0:5672"', "no user could log in"),
        ('[gateway]\nlisten = "example.org:5672"', "no user could log in"),
        ("[security]\npassword_checks_max = 0", "must be positive"),
        ("[amqp]\nopen_ms_max = 9_999", "handshake_ms_max at least"),
        ("[delivery]\nduplicates_max = 0", "duplicates_max must be positive"),
        ("[subscription]\nlock_ms = -1", r"\[subscription\]: lock_ms must be a whole number"),
        ("[subscription]\nlocks_ms = 1", "unknown key subscription.locks_ms"),
        ("[subscription]\nlock_ms = [1]", "got `array`"),
        ('[subscription]\ndead_letter_address = "topic://x"', "must name a queue"),
        ('[topic]\nbacklog_overflow = "explode"', r"\[topic\]: backlog_overflow"),
        ("[amqp", "is not TOML"),
        ("[commit]\nretry_ms = -1", "commit.retry_ms must be a whole number from 0 to 31536"),
        ("[commit]\nretry_ms = 9223372036854775807", "commit.retry_ms must be a whole number"),
        ("[commit]\nretry_ms = 1.5", "commit.retry_ms"),
        ("[delivery]\ncache_bytes = 9223372036854775807", "cache_bytes must be a whole number"),
        ("[upkeep]\nretention_days = 36501", "retention_days must be a whole number from 0"),
        ("[amqp]\nidle_timeout_ms = 4294967296", "idle_timeout_ms must be a whole number"),
        ("[amqp]\nproducer_credit = 2147483648", "producer_credit must be a whole number"),
    ],
)
def test_what_can_not_be_is_refused_in_a_sentence(tmp_path: Path, text: str, says: str) -> None:
    """An unknown key, a wrong type, a limit out of range, limits that contradict each other."""
    file = tmp_path / "gateway.toml"
    file.write_text(text)
    with pytest.raises(InvalidRequest, match=says) as refused:
        load(file, {})
    assert str(file) in str(refused.value) or "no user could log in" in says


def test_whoever_said_it_is_named(tmp_path: Path) -> None:
    """The file, the environment or the command line; no layer: the settings together."""
    file = tmp_path / "gateway.toml"
    file.write_text("[commit]\nbytes = 7\n")
    with pytest.raises(InvalidRequest, match=r"^DISTRIBUTARY_COMMIT_BYTES: commit\.bytes: e"):
        load(file, {"DISTRIBUTARY_COMMIT_BYTES": "many"})
    with pytest.raises(InvalidRequest, match=r"^DISTRIBUTARY_AMQP_IDLE_TIMEOUT_MS: .* 1000 at"):
        load(None, {"DISTRIBUTARY_AMQP_IDLE_TIMEOUT_MS": "-1"})
    with pytest.raises(InvalidRequest, match=r"^the command line: gateway\.listen is 'x:70000'"):
        load(file, {}, {"gateway.listen": "x:70000"})


def test_a_misspelt_environment_variable_is_an_error() -> None:
    """A setting that would silently do nothing is worse than a stop."""
    with pytest.raises(InvalidRequest, match=r"^DISTRIBUTARY_AMQP_SPEED: unknown key"):
        load(environment={"DISTRIBUTARY_AMQP_SPEED": "1"})


def test_where_commands_find_a_gateway_is_no_setting() -> None:
    """A gateway starts where its commands are used: they read the same environment."""
    assert load(environment={"DISTRIBUTARY_GATEWAY": "127.0.0.1:1"}) == load(environment={})


@pytest.mark.parametrize(
    ("address", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("[::1]", True),
        ("localhost", True),
        ("0.0.0.0", False),  # noqa: S104 (that is the point)
        ("[::]", False),
        ("10.0.0.7", False),
        ("localhost.example.org", False),
    ],
)
def test_loopback_is_what_only_this_machine_reaches(address: str, loopback: bool) -> None:
    """ANONYMOUS is on there, and elsewhere only where it is written down."""
    flags = {"gateway.listen": f"{address}:5672", "security.users": "users.toml"}
    assert load(None, {}, flags).anonymous is loopback
    assert load(None, {}, flags | {"security.anonymous": True}).anonymous
    assert not load(None, {}, flags | {"security.anonymous": False}).anonymous
