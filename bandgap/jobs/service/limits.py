"""Limits of a request, and refusals with their HTTP codes."""

from dataclasses import dataclass

from bandgap.foundation.config import Count, Positive, Settings
from bandgap.structures.records import Limits


class Refusal(Exception):
    """A request that gets no predictions: an HTTP code from 400 to 499, or 503, and a message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True)
class ServiceLimits(Settings):
    """Limits of requests; raises ConfigError when one is not a positive number.

    At most `max_waiting` requests are accepted at the same time, including those that are being
    answered; further ones get the code 429.
    """

    max_body_bytes: Count = 20_000_000
    max_structures: Count = 1_000
    max_atoms: Count = 1_000
    max_waiting: Count = 64
    seconds: Positive = 60.0

    @property
    def reading_limits(self) -> Limits:
        """The limits of reading files: compressed data may have ten times the size of a body."""
        unpacked = 10 * self.max_body_bytes
        return Limits(
            max_file_bytes=unpacked,
            max_archive_bytes=unpacked,
            max_atoms=self.max_atoms,
            max_structures=self.max_structures,
        )
