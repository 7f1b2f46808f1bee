"""Changing a file of users: whole or not at all, and by one command at a time."""

import fcntl
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from distributary.ingest.security.users import SECRET, User, Users, new_secret, secret_text, texts
from distributary.pipeline.errors import InvalidRequest

_HEAD = (
    "# Users of a gateway, written by `distributary user`; a comment of your own would not last.\n"
)


@contextmanager
def changing(file: Path) -> Iterator[dict[str, User]]:
    """Yield the users of the file, or none if there is no file; when the block ends well, the
    changed users are written. Raises InvalidRequest when the file can't be read or written."""
    try:
        file = file.resolve()  # a link stays a link: its target is replaced
    except (OSError, RuntimeError):  # Python 3.13 has an OSError
        raise InvalidRequest(f"users file {file}: it is a link to itself") from None
    try:
        folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise InvalidRequest(
            f"users file {file}: its folder can't be opened: {error.strerror}"
        ) from None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        found = Users.read(file) if file.exists() else Users({}, new_secret())
        users = dict(found.by_name)
        yield users
        _replace(file, folder, _text(Users(users, found.secret)))
    except OSError as error:
        raise InvalidRequest(f"users file {file} can't be written: {error.strerror}") from None
    finally:
        os.close(folder)


def _text(users: Users) -> str:
    lines: Mapping[str, object] = {
        SECRET: secret_text(users.secret),
        **{name: texts(user) for name, user in users.by_name.items()},
    }
    return _HEAD + "".join(f"{_toml(k)} = {_toml(v)}\n" for k, v in lines.items())


def _toml(value: object) -> str:
    """Return a value in TOML, whose texts and arrays are JSON's."""
    return json.dumps(value, ensure_ascii=False)


def _replace(file: Path, folder: int, text: str) -> None:
    """Replace the file: readers see the old one or the new one, also after a power cut."""
    new, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)  # mode 0600
    try:
        with os.fdopen(new, "w") as out:
            if file.exists():
                before = file.stat()
                with suppress(PermissionError):
                    os.fchown(out.fileno(), before.st_uid, before.st_gid)
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        os.replace(name, file)  # noqa: PTH105 (beside mkstemp's name, a text)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)  # noqa: PTH108 (as above)
        raise
    os.fsync(folder)
