"""Errors: the three parts that the program's messages have, and its text."""

from __future__ import annotations


class LockstepError(Exception):
    """Where something happened, what is wrong and what to do; the text is the program's line."""

    where: str
    what: str
    remedy: str

    def __init__(self, where: str, what: str, remedy: str = "", line: str | None = None) -> None:
        super().__init__(where, what, remedy, line)
        self.where, self.what, self.remedy = where, what, remedy
        self._line = line

    def __str__(self) -> str:
        if self._line is not None:
            return self._line
        place = f"{self.where}: " if self.where else ""
        return f"{place}{self.what}{'; ' + self.remedy if self.remedy else ''}"


class InputError(LockstepError, ValueError):
    """A value, a file or a graph is wrong."""


class FileError(LockstepError):
    """The system refused: a file cannot be opened, read or written."""


class OutOfMemory(LockstepError, MemoryError):
    """Memory ran out."""


class InternalError(LockstepError, RuntimeError):
    """An invariant of lockstep itself does not hold: a bug."""


class Stopped(LockstepError):
    """The call was asked to end before it was done."""


# By lk_status (lockstep/error.h).
BY_STATUS = {1: InputError, 2: FileError, 3: OutOfMemory, 4: InternalError, 5: Stopped}
