"""Limits that the operating system keeps for us: memory, core dumps, file sizes, orphans.

Memory is limited by RLIMIT_DATA, which counts what a process can write to and nobody else sees.
RLIMIT_AS would count mapped libraries and reserved address space as well: `import torch` alone takes
gigabytes of it, so a useful bound for NumPy would forbid PyTorch. Where a kernel does not keep
RLIMIT_DATA for mappings (found out by asking for too much), RLIMIT_AS has to do.
"""

from __future__ import annotations

import importlib
import mmap
import signal
import sys
from typing import Any

resource: Any = None if sys.platform == "win32" else importlib.import_module("resource")

FILE_BYTES = 1 << 30
_alarm = getattr(signal, "alarm", None)


def apply(memory_mb: int) -> str:
    """Sets the limits of this process; returns how memory is limited: 'data', 'address space', ''."""
    if resource is None:
        return ""
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_FSIZE, FILE_BYTES)
    size = memory_mb << 20
    if _lower(resource.RLIMIT_DATA, size) and not _can_map(size):
        return "data"
    if _lower(resource.RLIMIT_AS, _address_space() + size) and not _can_map(size):
        return "address space"
    return ""


def expect_end_within(seconds: float) -> None:
    """Lets the kernel end this process when a request takes far longer than its deadline.

    Only matters when the runner is gone (killed with SIGKILL): the submission may be in a loop and
    would keep a core busy for ever. 0 cancels.
    """
    if _alarm is not None:
        _alarm(int(seconds) + 30 if seconds else 0)


def _lower(kind: int, value: int) -> bool:
    hard = resource.getrlimit(kind)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    try:
        resource.setrlimit(kind, (value, value))
    except (ValueError, OSError):
        return False
    return True


def _can_map(size: int) -> bool:
    """Whether `size` bytes can still be had; they are not touched, so this costs nothing."""
    try:
        flags = mmap.MAP_PRIVATE | getattr(mmap, "MAP_ANONYMOUS", mmap.MAP_ANON)
        mmap.mmap(-1, size, flags=flags).close()
    except (OSError, ValueError, OverflowError):
        return False
    return True


def _address_space() -> int:
    """Bytes of address space in use, 0 where the system does not say."""
    try:
        with open("/proc/self/statm") as file:
            pages = int(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * int(resource.getpagesize())
