"""What the SDK asks of the host it runs in. Outside of a component that is `Memory`.

Everything that leaves a plugin goes through `current`, so tests can look at it and answer.
"""

from __future__ import annotations

import sys

KEY_BYTES_MAX = 512
VALUE_BYTES_MAX = 1 << 20
PAGE = 1_000


class Memory:
    """Stands in for a host in the author's own tests: a store in memory, answers that are given."""

    def __init__(self, is_quiet: bool = False):
        self.is_quiet = is_quiet
        self.logged: list[tuple[str, str]] = []
        self.progress_reports: list[tuple[float, float | None, str | None]] = []
        self.store: dict[str, bytes] = {}
        self.secrets: set[str] = set()
        self.responder = None

    def log(self, level: str, message: str) -> None:
        self.logged.append((level, message))
        if not self.is_quiet:
            print(f"{level}: {message}", file=sys.__stderr__)

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        self.progress_reports.append((done, total, message))

    def secret_present(self, name: str) -> bool:
        return name in self.secrets

    def secret_placeholder(self, name: str) -> str | None:
        return "{{secret:%s}}" % name if name in self.secrets else None

    def kv_get(self, key: str) -> bytes | None:
        _check_key(key)
        return self.store.get(key)

    def kv_set(self, key: str, value: bytes) -> None:
        _check_key(key)
        _check_value(value)
        self.store[key] = bytes(value)

    def kv_delete(self, key: str) -> bool:
        _check_key(key)
        return self.store.pop(key, None) is not None

    def kv_swap(self, key: str, expected: bytes | None, value: bytes | None) -> bool:
        _check_key(key)
        if self.store.get(key) != expected:
            return False
        if value is None:
            self.store.pop(key, None)
        else:
            _check_value(value)
            self.store[key] = bytes(value)
        return True

    def kv_keys(self, prefix: str, after: str | None) -> list[str]:
        keys = sorted(self.store, key=str.encode)
        fits = [key for key in keys if key.startswith(prefix) and (after is None or key.encode() > after.encode())]
        return fits[:PAGE]

    def send(self, request):
        from . import http

        if self.responder is None:
            raise http.Refused("there is no host outside of toolhost: answer with `toolhost.testing.responding(...)`")
        answer = self.responder(request)
        return answer if isinstance(answer, http.Response) else http.response(*answer)


def _check_key(key: str) -> None:
    from . import kv

    size = len(key.encode())
    if not 1 <= size <= KEY_BYTES_MAX:
        raise kv.Invalid(f"key of {size} bytes; allowed are 1 to {KEY_BYTES_MAX}")


def _check_value(value: bytes) -> None:
    from . import kv

    if len(value) > VALUE_BYTES_MAX:
        raise kv.Invalid(f"value of {len(value)} bytes exceeds {VALUE_BYTES_MAX}")


#: The host that everything goes to.
current = Memory()
