"""How much one request may hold and take, and the refusals with their HTTP codes."""

import dataclasses
from dataclasses import dataclass

from bandgap.foundation.errors import ConfigError
from bandgap.structures.records import Limits


class Refusal(Exception):
    """A request that is not answered with predictions: an HTTP code from 400 to 499, or 503, and one sentence."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code, self.sentence = code, sentence


@dataclass(frozen=True)
class ServiceLimits:
    """What a request may take; raises ConfigError when a limit is not a positive number.

    `max_waiting` requests are taken in at once, those that are being answered included; the next ones hear 429.
    """

    max_body_bytes: int = 20_000_000
    max_structures: int = 1_000
    max_atoms: int = 1_000
    max_waiting: int = 64
    seconds: float = 60.0

    def __post_init__(self) -> None:
        for limit in dataclasses.fields(self):
            value = getattr(self, limit.name)
            if not value > 0:
                raise ConfigError(
                    f"ServiceLimits.{limit.name}: found {value!r}. Accepted: a number above 0."
                )

    @property
    def of_files(self) -> Limits:
        """The limits of reading: what is packed may unpack to ten bodies."""
        unpacked = 10 * self.max_body_bytes
        return Limits(
            max_file_bytes=unpacked,
            max_archive_bytes=unpacked,
            max_atoms=self.max_atoms,
            max_structures=self.max_structures,
        )
