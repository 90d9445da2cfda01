"""The parent's answers to what a bench wants to do while it is set up.

A bench runs foreign code before it adds the filter for timed turns, so it could leave that out. From its start every
call that only setting up may make is therefore put to the listener of an earlier filter (`seccomp.asked`). The parent
holds it, says yes until the bench is to be sealed, and closes it then: the kernel refuses the calls from there on.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import struct
import threading

# struct seccomp_notif: its number, process, flags, and 64 bytes about the call. struct seccomp_notif_resp.
_QUESTION_BYTES = 80
_ANSWER = struct.Struct("QqiI")
# _IOWR('!', 0, struct seccomp_notif), _IOWR('!', 1, struct seccomp_notif_resp)
_RECEIVE = 0xC0000000 | _QUESTION_BYTES << 16 | 0x2100
_SEND = 0xC0000000 | _ANSWER.size << 16 | 0x2101
_CONTINUE = 1


class SetupCalls:
    """Allows every call that is asked about, in a thread of its own, until it is closed. Owns the listener."""

    def __init__(self, listener: int) -> None:
        self._listener = listener
        self._stopped, self._stop = os.pipe()
        self._thread = threading.Thread(target=self._allow_all, name="whet-setup-calls", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """No further call is allowed; one that waits for its answer fails."""
        os.close(self._stop)
        self._thread.join()
        os.close(self._listener)
        os.close(self._stopped)

    def _allow_all(self) -> None:
        wake_ups = select.poll()
        wake_ups.register(self._stopped, select.POLLHUP)
        wake_ups.register(self._listener, select.POLLIN)
        while True:
            events = dict(wake_ups.poll())
            if self._stopped in events:
                return
            if events.get(self._listener, 0) & select.POLLIN:
                self._allow()
            else:
                # Every process with the filter has ended.
                wake_ups.unregister(self._listener)

    def _allow(self) -> None:
        question = bytearray(_QUESTION_BYTES)
        with contextlib.suppress(InterruptedError):
            try:
                fcntl.ioctl(self._listener, _RECEIVE, question)
                number = int.from_bytes(question[:8], "little")
                fcntl.ioctl(self._listener, _SEND, _ANSWER.pack(number, 0, 0, _CONTINUE))
            except OSError as error:
                # Whoever asked was killed, or interrupted and will ask again.
                if error.errno != errno.ENOENT:
                    raise
