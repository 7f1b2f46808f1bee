"""`distributary user`, as a shell calls it, and the file that it writes."""

import json
import os
import pty
import stat
import subprocess
import sys
import termios
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner
from gateway_process import PATIENCE, until

from distributary.ingest.cli.main import MISUSED, cli
from distributary.ingest.security.users import Users, hashed, user_of
from distributary.ingest.security.users_file import changing
from distributary.pipeline.errors import InvalidRequest

COMMAND = str(Path(sys.executable).with_name("distributary"))
PASSWORD = "wonderland"  # noqa: S105 (alice's, who is made up)


def user(*arguments: object, typed: str = "", code: int = 0) -> str:
    """The output of `distributary user`, which must end with this code."""
    done = CliRunner().invoke(cli, ["user", *map(str, arguments)], input=typed)
    if isinstance(done.exception, InvalidRequest):  # the command itself makes a sentence of it
        assert code == MISUSED, done.exception
        return str(done.exception)
    assert done.exit_code == code, done.output
    return done.output


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of users with alice in it."""
    file = tmp_path / "users.toml"
    user("add", "alice", "--users", file, typed=PASSWORD)
    return file


def test_a_user_that_was_added_can_log_in_both_ways(file: Path) -> None:
    """By password and by proof; the password itself stands nowhere, and no other user may read the
    file."""
    users = Users.read(file)
    assert users.verify("alice", PASSWORD)
    assert not users.verify("alice", "looking-glass")
    assert users.scram
    assert PASSWORD not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(file.parent.iterdir()) == [file]


def test_the_command_ends_with_a_sentence_and_a_code(file: Path) -> None:
    """As a shell sees it, the password from a pipe."""
    command = [COMMAND, "user", "add", "bob", "--users", str(file)]
    for code, says in ((0, ""), (2, "distributary: there is a user 'bob' already")):
        done = subprocess.run(command, input="builder", capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (code, "")
        assert done.stderr.startswith(says)
        assert len(done.stderr.splitlines()) == code // 2
    assert Users.read(file).verify("bob", "builder")


def test_a_terminal_is_asked_twice_and_shows_nothing(file: Path) -> None:
    """The password isn't seen while it is typed."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [COMMAND, "user", "passwd", "alice", "--users", str(file)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as process:
        os.close(theirs)
        shown = b""
        for prompt in (b"Password", b"Repeat"):
            while prompt not in shown:
                shown += os.read(ours, 1_024)
            # What is typed before the echo is off would be thrown away with it.
            until(lambda: not termios.tcgetattr(ours)[3] & termios.ECHO, "the echo is off")
            os.write(ours, b"queen\n")
        assert process.wait(PATIENCE) == 0
    os.close(ours)
    assert b"queen" not in shown
    assert Users.read(file).verify("alice", "queen")


def test_one_line_feed_at_the_end_is_not_part_of_the_password(file: Path) -> None:
    """`echo` adds a line feed; blanks are part of the password."""
    user("passwd", "alice", "--users", file, typed="two words \n")
    users = Users.read(file)
    assert users.verify("alice", "two words ")
    assert not users.verify("alice", "two words")


def test_users_are_listed_with_what_they_can_use(file: Path) -> None:
    """In the file's order; as JSON for scripts."""
    user("add", "bob", "--users", file, "--no-scram", typed="builder")
    assert json.loads(user("list", "--users", file, "--json")) == [
        {"name": "alice", "mechanisms": ["PLAIN", "SCRAM-SHA-256"]},
        {"name": "bob", "mechanisms": ["PLAIN"]},
    ]
    assert user("list", "--users", file).splitlines()[1] == "bob\tPLAIN"


def test_a_removed_user_is_gone_and_others_stay(file: Path) -> None:
    """With the hashes that they had, and the secret that unknown names are asked with."""
    user("add", "bob", "--users", file, typed="builder")
    before = Users.read(file)
    user("remove", "bob", "--users", file)
    after = Users.read(file)
    assert after.by_name == {"alice": before.by_name["alice"]}
    assert after.keys("carol").salt == before.keys("carol").salt


@pytest.mark.parametrize(
    ("arguments", "typed", "says"),
    [
        (["add", "alice"], "x", "already"),
        (["add", "Al\u00adice", "--no-scram"], "", "password is empty"),
        (["add", "al\u00adice"], "x", "already"),
        (["add", ""], "x", "1 to 255"),
        (["add", "x" * 256], "x", "1 to 255"),
        (["add", "anonymous"], "x", "stands for others"),
        (["add", "*"], "x", "stands for others"),
        (["add", "a\u0007"], "x", "U+0007"),
        (["add", "bob"], "", "empty"),
        (["add", "bob"], "a\tb", "U+0009"),
        (["passwd", "bob"], "x", "no user 'bob'"),
        (["remove", "bob"], "x", "no user 'bob'"),
    ],
)
def test_what_can_not_be_is_refused_and_changes_nothing(
    file: Path, arguments: list[str], typed: str, says: str
) -> None:
    """Exit code 2, one sentence, the file as it was."""
    before = file.read_text()
    said = user(*arguments, "--users", file, typed=typed, code=2)
    assert says in said
    assert len(said.splitlines()) == 1
    assert file.read_text() == before


def test_a_password_on_the_command_line_is_refused(file: Path) -> None:
    """Every process of the machine could read it."""
    user("add", "bob", "builder", "--users", file, code=2)
    user("add", "bob", "--password", "builder", "--users", file, code=2)


def test_a_broken_file_is_left_alone(file: Path) -> None:
    """The sentence names it."""
    file.write_text('alice = "secret"\n')
    assert str(file) in user("add", "bob", "--users", file, typed="x", code=2)
    assert str(file) in user("list", "--users", file, code=2)
    assert file.read_text() == 'alice = "secret"\n'


def test_a_link_stays_a_link(file: Path, tmp_path: Path) -> None:
    """The file that it points to is replaced."""
    link = tmp_path / "link.toml"
    link.symlink_to(file)
    user("add", "bob", "--users", link, typed="builder")
    assert link.is_symlink()
    assert set(Users.read(file).by_name) == {"alice", "bob"}


def test_changes_at_once_lose_nobody(file: Path) -> None:
    """Each change begins with the file that the one before wrote."""
    kept = user_of("x")

    def add(name: str) -> None:
        with changing(file) as users:
            users[name] = kept

    names = [f"user-{number}" for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, names))
    assert set(Users.read(file).by_name) == {"alice", *names}


def test_a_change_that_fails_leaves_the_file_as_it_was(file: Path) -> None:
    """No half of it, and nothing beside it."""
    before = file.read_text()
    with pytest.raises(KeyError), changing(file) as users:  # noqa: PT012 (a change of two steps)
        users["bob"] = user_of("builder")
        del users["carol"]
    assert file.read_text() == before
    assert list(file.parent.iterdir()) == [file]


def test_a_file_of_before_goes_on(tmp_path: Path) -> None:
    """A name with one hash; the password in the form in which it was hashed then. A new password
    keeps both."""
    file = tmp_path / "users.toml"
    file.write_text(f'alice = "{hashed(PASSWORD)}"\n')
    users = Users.read(file)
    assert users.verify("alice", PASSWORD)
    assert not users.scram
    user("passwd", "alice", "--users", file, typed="looking-glass")
    assert Users.read(file).scram
    assert Users.read(file).verify("alice", "looking-glass")


def test_names_and_passwords_are_prepared(tmp_path: Path) -> None:
    """Two ways to type one word are one."""
    file = tmp_path / "users.toml"
    user("add", "zoe\u0301", "--users", file, typed="cafe\u0301")
    assert list(tomllib.loads(file.read_text())) == ["", "zoé"]
    assert Users.read(file).verify("zoé", "café")
    assert Users.read(file).verify("zoé", "cafe\u0301")


def test_a_user_without_scram_is_asked_like_nobody() -> None:
    """No proof fits, and what it is asked with looks like a user's."""
    users = Users({"bob": user_of("builder", scram=False)}, b"secret")
    assert users.keys("bob").salt == users.keys("bob").salt
    assert users.keys("bob").stored != users.keys("bob").stored
    assert not users.scram


@pytest.mark.parametrize(
    "line",
    [
        'alice = ["scrypt$AAAA$"]',
        'alice = ["scram-sha-256$4096$AAAA$AAAA$AAAA"]',
        'alice = ["scrypt$AAAA$AAAA", "scram-sha-256$1$AAAA$AAAA$AAAA"]',
        'alice = ["scrypt$AAAA$AAAA", "scram-sha-256$x$AAAA$AAAA$AAAA"]',
        'alice = ["scrypt$AAAA$AAAA", "md5$AAAA"]',
        'alice = ["scrypt$AAAA$AAAA", 7]',
        "alice = []",
        '[alice]\nhash = "scrypt$AAAA$AAAA"',
        '"" = "scrypt$AAAA$AAAA"',
        '"zo\u00e9" = "scrypt$AAAA$AAAA"\n"zoe\u0301" = "scrypt$AAAA$AAAA"',
        "alice",
    ],
)
def test_a_line_that_can_not_be_read_is_refused(tmp_path: Path, line: str) -> None:
    """It is refused when the file is read, not when a user logs in."""
    file = tmp_path / "users.toml"
    file.write_text(line)
    with pytest.raises(InvalidRequest, match=r"users file .*users\.toml"):
        Users.read(file)


def test_a_file_that_is_a_link_to_itself_is_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "users.toml"
    file.symlink_to(file)
    with pytest.raises(InvalidRequest, match="a link to itself"), changing(file):
        pass
