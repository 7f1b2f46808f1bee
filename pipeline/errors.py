"""All errors that this project raises on purpose.

* DistributaryError
  x IllegalTransition     an event that the state does not expect: a bug of ours or of a caller
  x InvalidRequest        a person or a peer asked for something that can't be
    x NotInLog              a log's tables don't have what another log of its lake may have
    x PlacementRefused      topics can't be placed now: a gateway runs, or a log has them
    x SelectorError       a text that is no selector (`pipeline.selector.lexer`)
  x DecodeError           bytes that are no AMQP value or message (`pipeline.codec.amqp_types`)
  x BrokenFrame           a value in a peer's frame can't be read (`ingest.net.link`)
  x SparkUnavailable      no Java, or no jars, for a Spark job (`jobs.session.session`)
  x JavaGone              a job's JVM has ended (`jobs.session.job_options`)
  x StoreError            the disk or a table isn't what it must be
    x JournalBroken       a frame that isn't the last one is damaged
    x JournalVersion      written by another version of the program
    x JournalFull         no space for the next segment
    x ForeignCommit       another writer committed to a table that only this gateway may write
    x HomeLocked          another gateway owns this home
    x HomeLost            another gateway has taken this home over from us
    x BeatFailed          an owner's sign of life could not be shown, for now
    x TablesLocked        another process writes Spark's tables (`jobs.tables.writer_lock`)
    x BackupLocked        another process uses the folder of a backup
"""

import errno

#: Errors of a write that names no file, as those of standard output.
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def of_a_file(error: OSError) -> str | None:
    """Return the sentence for a disk's error about a file that a user named; None if the error
    names no file, so that a bug keeps its traceback."""
    if not error.filename:
        return None
    return f"{error.filename}: {error.strerror or error}. See to the file, its rights and the disk"


def of_room(error: OSError) -> str | None:
    """Return the sentence for a write without room whose error names no file, as that of standard
    output does; None for another error."""
    if error.errno not in _NO_ROOM:
        return None
    return f"can't write: {error.strerror}. See to the disk's room, also where the output goes"


class DistributaryError(Exception):
    """The base of every error that this project raises."""


class IllegalTransition(DistributaryError):
    """An event arrived in a state that does not expect it."""

    def __init__(self, state: str, event: str) -> None:
        super().__init__(f"{event} is not legal in state {state}")
        self.state, self.event = state, event


class InvalidRequest(DistributaryError):
    """A request can't be fulfilled; the message says what is wrong, where, and what to do."""


def being_restored(home: str) -> InvalidRequest:
    """Return the error for a home with the marker of a restore: it may be half a home."""
    return InvalidRequest(
        f"{home} is being restored, or a restore of it was cut off: wait for it, or run "
        "`distributary restore` again"
    )


class NotInLog(InvalidRequest):
    """The tables of a log don't have the requested subscription or topic; those of another log of
    its lake may."""


class PlacementRefused(InvalidRequest):
    """Topics can't be placed in another log now, as a gateway runs or a log has them; nothing was
    changed."""


class MoveRefused(InvalidRequest):
    """A log can't be moved to another gateway now; its owner serves on."""


class SelectorFailed(DistributaryError):
    """A selector couldn't be evaluated for a message: a bug, named by the cause. Whether any of the
    given messages match is unknown."""

    def __init__(self, selector: str, cause: Exception) -> None:
        super().__init__(repr(cause))
        self.selector = selector


class StoreError(DistributaryError):
    """The disk or a table isn't what it must be; nothing was changed."""


class JournalBroken(StoreError):
    """A frame before the last one is damaged: data that was accepted would be lost by going on."""


class JournalVersion(StoreError):
    """The journal was written by a version of the program that this one can't read."""


class JournalFull(StoreError):
    """No space is left for the next segment; waiting groups are kept and tried again."""


class ForeignCommit(StoreError):
    """Another writer committed to a table that only this gateway may write."""


class HomeLocked(StoreError):
    """Another gateway owns this home."""


class HomeLost(StoreError):
    """Another gateway has taken this home over; nothing more may be accepted or written."""


class BeatFailed(StoreError):
    """An owner couldn't show its sign of life, for now; it may still own the home."""


class TablesLocked(StoreError):
    """Another process writes Spark's tables; the message says which."""


class StopAsked(DistributaryError):
    """The process was asked to stop while it waited; nothing was changed."""

    def __init__(self) -> None:
        super().__init__("the job was asked to stop")


class BackupLocked(StoreError):
    """Another process writes or reads the folder of a backup; the message says which folder."""
