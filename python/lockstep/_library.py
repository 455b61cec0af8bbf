"""The shared library through ctypes. Only pointers, numbers and texts cross: no struct is mirrored here.

Calls of the main thread run on a thread of their own while it waits, so that Ctrl-C (or any signal whose handler raises)
ends them: the library is asked to stop, and the exception goes on when it has. Other threads call directly. ctypes lets go
of the interpreter's lock during every call."""

from __future__ import annotations

import _thread
import ctypes
import os
import threading
from typing import Callable, Iterator, Sequence

from ._errors import BY_STATUS, InputError, InternalError, LockstepError, OutOfMemory

_NAME = "liblockstep.so.@SOVERSION@"
_Words = ctypes.POINTER(ctypes.c_char_p)
_Size = ctypes.POINTER(ctypes.c_size_t)
_Numbers = ctypes.POINTER(ctypes.c_double)

# name: (result, arguments), as in lockstep/reply.h, stop.h and catalogue.h
_FUNCTIONS = {
    "lk_reply_ask": (ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_int, _Words, ctypes.c_char_p, ctypes.c_size_t,
                                       ctypes.c_void_p]),
    "lk_reply_sweep": (ctypes.c_void_p, [ctypes.c_int, ctypes.POINTER(ctypes.c_int), _Words, ctypes.c_int,
                                         ctypes.c_void_p]),
    "lk_reply_verbs": (ctypes.c_void_p, []),
    "lk_reply_free": (None, [ctypes.c_void_p]),
    "lk_reply_status": (ctypes.c_int, [ctypes.c_void_p]),
    "lk_reply_error": (ctypes.c_char_p, [ctypes.c_void_p, ctypes.c_int]),
    "lk_reply_yes": (ctypes.c_bool, [ctypes.c_void_p]),
    "lk_reply_json": (ctypes.c_void_p, [ctypes.c_void_p, _Size]),
    "lk_reply_text": (ctypes.c_char_p, [ctypes.c_void_p]),
    "lk_reply_rows": (ctypes.c_size_t, [ctypes.c_void_p]),
    "lk_reply_columns": (ctypes.c_int, [ctypes.c_void_p]),
    "lk_reply_column": (ctypes.c_char_p, [ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(_Numbers),
                                          ctypes.POINTER(_Words)]),
    "lk_reply_row": (ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t, _Size]),
    "lk_stop_new": (ctypes.c_void_p, []),
    "lk_stop_free": (None, [ctypes.c_void_p]),
    "lk_stop_ask": (None, [ctypes.c_void_p]),
    "lk_version": (ctypes.c_char_p, []),
    "lk_data_date": (ctypes.c_char_p, []),
}


def _load() -> ctypes.CDLL:
    """The library beside this file, or the one that LOCKSTEP_LIBRARY names."""
    path = os.environ.get("LOCKSTEP_LIBRARY") or os.path.join(os.path.dirname(os.path.abspath(__file__)), _NAME)
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"lockstep's library cannot be loaded: {error}; it needs zlib, zstd, SQLite, expat and, where it was "
                          "built with it, ISA-L") from error
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


_c = _load()


def version() -> str:
    return _c.lk_version().decode()


def data_date() -> str:
    return _c.lk_data_date().decode()


# ---- words ----


def encode(word: str) -> bytes:
    """A word as C takes it."""
    if "\0" in word:
        raise InputError(word.split("=", 1)[0].replace("\0", "\\x00"), "holds a NUL character", "give a text without it")
    try:
        return os.fsencode(word)
    except UnicodeEncodeError:
        raise InputError(word.split("=", 1)[0].encode("ascii", "backslashreplace").decode(), "holds half a surrogate pair",
                         "give a text that UTF-8 can hold") from None


def _array(words: Sequence[str]) -> ctypes.Array:
    return (ctypes.c_char_p * len(words))(*map(encode, words))


# ---- replies ----


def _text(address: int | None, size: int) -> str | None:
    return None if address is None else ctypes.string_at(address, size).decode("utf-8", "replace")


class Reply:
    """What the library answered; freed with this object."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __del__(self, free: Callable[[int], None] = _c.lk_reply_free) -> None:
        if self._handle:
            free(self._handle)
            self._handle = None

    def check(self) -> "Reply":
        """Raises where there is no answer."""
        status = _c.lk_reply_status(self._handle)
        if status != 0:
            parts = [(_c.lk_reply_error(self._handle, part) or b"").decode("utf-8", "replace") for part in range(4)]
            raise BY_STATUS.get(status, InternalError)(*parts)
        return self

    @property
    def yes(self) -> bool:
        return _c.lk_reply_yes(self._handle)

    def json(self) -> str | None:
        size = ctypes.c_size_t()
        return _text(_c.lk_reply_json(self._handle, ctypes.byref(size)), size.value)

    def text(self) -> str | None:
        text = _c.lk_reply_text(self._handle)
        return None if text is None else text.decode("utf-8", "replace")

    def rows(self) -> int:
        return _c.lk_reply_rows(self._handle)

    def row(self, number: int) -> str:
        size = ctypes.c_size_t()
        text = _text(_c.lk_reply_row(self._handle, number, ctypes.byref(size)), size.value)
        if text is None:
            raise OutOfMemory("", "out of memory")
        return text

    def columns(self) -> Iterator[tuple[str, object]]:
        """(key, address of doubles or array of texts), in order; both live as long as the reply."""
        numbers, texts = _Numbers(), _Words()
        rows = self.rows()
        for i in range(_c.lk_reply_columns(self._handle)):
            key = _c.lk_reply_column(self._handle, i, ctypes.byref(numbers), ctypes.byref(texts)).decode()
            at = numbers if numbers else texts
            kind = at._type_ * rows
            yield key, kind.from_address(ctypes.addressof(at.contents)) if rows else kind()


# ---- calls ----


# After so long at most Ctrl-C is heard.
_HEARD_S = 0.1


class _Call:
    """One call of the library, here or on a thread of its own."""

    _stop: int | None = None  # also of one that a signal ended before it was made

    def __init__(self, work: Callable[[int], int | None]) -> None:
        self._work = work
        self._stop = _c.lk_stop_new()
        self._reply: Reply | None = None
        if not self._stop:
            raise OutOfMemory("", "out of memory")

    def __del__(self, free: Callable[[int], None] = _c.lk_stop_free) -> None:
        if self._stop:
            free(self._stop)

    def run(self) -> None:
        handle = self._work(self._stop)
        self._reply = Reply(handle) if handle else None

    def result(self) -> Reply:
        if self._reply is None:
            raise OutOfMemory("", "out of memory")
        return self._reply.check()

    def run_beside(self) -> None:
        """On another thread, while this one waits for it and for signals."""
        done = _thread.allocate_lock()
        done.acquire()
        failure: list[BaseException] = []

        def work() -> None:
            try:
                self.run()
            except BaseException as error:  # handed to the thread that waits
                failure.append(error)
            finally:
                done.release()

        started = False
        try:
            _thread.start_new_thread(work, ())
            started = True
            # A signal that comes just before the wait does not end it: handlers have their turn at its end.
            while not done.acquire(timeout=_HEARD_S):
                pass
        except BaseException:
            _c.lk_stop_ask(self._stop)
            if started:
                done.acquire()  # a second Ctrl-C leaves the call to end by itself
            raise
        if failure:
            raise failure[0]


def _run(work: Callable[[int], int | None]) -> Reply:
    call = _Call(work)
    if threading.current_thread() is threading.main_thread():
        call.run_beside()
    else:
        call.run()
    return call.result()


def ask(verb: str, words: Sequence[str], graph: bytes | None = None) -> Reply:
    array = _array(words)
    size = 0 if graph is None else len(graph)
    return _run(lambda stop: _c.lk_reply_ask(verb.encode(), len(words), array, graph, size, stop))


def sweep(lines: Sequence[Sequence[str]], threads: int) -> Reply:
    counts = (ctypes.c_int * len(lines))(*map(len, lines))
    array = _array([word for line in lines for word in line])
    return _run(lambda stop: _c.lk_reply_sweep(len(lines), counts, array, threads, stop))


def verbs() -> Reply:
    handle = _c.lk_reply_verbs()
    if not handle:
        raise OutOfMemory("", "out of memory")
    return Reply(handle).check()


__all__ = ["LockstepError", "Reply", "ask", "data_date", "encode", "sweep", "verbs", "version"]
