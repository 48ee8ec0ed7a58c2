"""Settings: flags before environment before `fairlead.toml` before defaults.

The file lies in the data folder, so that all processes on one folder follow the same rules. It is
read again when it changes: a new value holds from the next claim on.
"""

from __future__ import annotations

import logging
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from ipaddress import ip_network
from pathlib import Path
from typing import Any, NamedTuple

from fairlead.errors import InvalidSetting, UsageError
from fairlead.i18n import LANGUAGES
from fairlead.model.customers import check_interval
from fairlead.policy.attachments import PartsRule
from fairlead.policy.classic import DEFAULT_RESET_INTERVAL, DEFAULT_THRESHOLDS, Reset
from fairlead.policy.fair import DEFAULT_UNIT
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.policy.retry import RetryRule
from fairlead.policy.rules import Rules, check_policy

_log = logging.getLogger(__name__)

FILE_NAME = "fairlead.toml"
DEFAULT_DATA = "fairlead-data"
"""The data folder where none is named."""
ENVIRONMENT_PREFIX = "FAIRLEAD_"
NOT_SETTINGS = frozenset({"FAIRLEAD_DATA", "FAIRLEAD_KEY", "FAIRLEAD_URL"})


# What a computer can do, and what keeps the promise: a sweep must never meet a submission.
_BOUNDS: dict[str, tuple[float, float]] = {
    "workers": (1, 256),
    "max_attempts": (1, 1000),
    "max_characters": (1, 200_000_000),
    "max_document_bytes": (1, 10**15),
    "memory_limit": (200_000_000, 10**15),
    "lease": (1, 86_400),
    "time_limit": (1, 86_400),
    "sweep_after": (3600, 10**9),
    "max_pages": (1, 1_000_000),
    "max_pixels": (1, 10**10),
    "max_unpacked_bytes": (1, 2_000_000_000),
    "max_ratio": (1, 1_000_000),
    "max_members": (1, 1_000_000),
    "max_depth": (0, 20),
    "port": (0, 65_535),
    "requests_burst": (1, 10**9),
    "max_upload_bytes": (1, 10**15),
    "max_upload_files": (1, 10_000),
    "request_timeout": (0.1, 3600),
}
_ENGINES = ("local", "celery")
_BROKERS = ("amqp", "amqps", "redis", "rediss")
_SANDBOXES = ("best", "strict")
_LANGUAGE = re.compile(r"[A-Za-z0-9_/-]{1,40}")


def _setting(default: Any, help_text: str) -> Any:
    return field(default=default, metadata={"help": help_text})


@dataclass(frozen=True)
class Settings:
    """All settings of an installation."""

    engine: str = _setting("local", '"local": worker processes on this machine; "celery": Celery')
    broker: str | None = _setting(
        None, "celery: the broker, such as amqp://user:password@host or redis://host"
    )
    store: str | None = _setting(
        None, "a PostgreSQL server's URL (none: a file in the data folder)"
    )
    files: str | None = _setting(
        None, "a folder or s3:// URL for documents and texts, for all machines (none: data folder)"
    )
    policy: str | None = _setting(
        None, '"classic" or "fair"; none: as the data folder has it, classic in a new one'
    )
    unit: float = _setting(DEFAULT_UNIT, "fair: seconds of work of a standard document")
    reset_interval: float = _setting(
        DEFAULT_RESET_INTERVAL, "seconds after which a customer's count goes back to 0"
    )
    reset: Reset = _setting(  # noqa: RUF009 (as all others; ruff takes a Literal for a call)
        "idle", '"idle": since the last document; "window": every interval'
    )
    thresholds: tuple[int, ...] = _setting(
        DEFAULT_THRESHOLDS, "counts below which a document gets the next lower priority"
    )
    overdue_lane: bool = _setting(default=True, help_text="nobody waits for ever for a start")
    overdue_after: float | None = _setting(
        None, "seconds without a start until a customer is overdue (none: reset_interval)"
    )
    lane_share: int = _setting(4, "the overdue lane gets at most one part in this many")
    workers: int = _setting(2, "worker processes of the local engine")
    lease: float = _setting(30.0, "seconds for which a worker holds a document without a sign")
    max_attempts: int = _setting(3, "tries before a document whose worker is lost has failed")
    retry_delay: float = _setting(2.0, "seconds before the second try, doubled for each further")
    time_limit: float = _setting(120.0, "seconds that reading one document may take")
    memory_limit: int = _setting(1_500_000_000, "bytes of memory that reading one may take")
    max_characters: int = _setting(20_000_000, "characters of text kept of one document")
    max_pages: int = _setting(5_000, "pages read of one document")
    max_pixels: int = _setting(100_000_000, "pixels of one picture that is read")
    max_unpacked_bytes: int = _setting(500_000_000, "bytes that one document may unpack to")
    max_ratio: int = _setting(200, "times its own size that a document may unpack to")
    max_members: int = _setting(1_000, "files inside one document")
    max_depth: int = _setting(5, "levels of documents inside documents")
    ocr_languages: tuple[str, ...] = _setting(
        ("eng", "spa", "por", "pol", "deu", "fra"), "languages looked for in scans"
    )
    sandbox: str = _setting(
        "best", '"best": lock reading in as far as the machine can; "strict": wholly, or not at all'
    )
    max_document_bytes: int = _setting(1_000_000_000, "largest document that is accepted")
    strict_customers: bool = _setting(default=False, help_text="refuse customers never added")
    host: str = _setting("127.0.0.1", "serve: the address to listen on")
    port: int = _setting(8321, "serve: the port to listen on; 0: any free one")
    requests_a_second: float | None = _setting(
        None, "serve: requests that each customer may send a second (none: any number)"
    )
    requests_burst: int = _setting(100, "serve: requests it may send at once after a rest")
    bytes_a_day: int | None = _setting(
        None, "bytes that each customer may submit a day, UTC (none: any number)"
    )
    max_upload_bytes: int = _setting(2_000_000_000, "serve: largest request that is accepted")
    max_upload_files: int = _setting(100, "serve: most documents in one request")
    request_timeout: float = _setting(
        20.0, "serve: seconds for the headers of a request, and between two parts of its body"
    )
    sweep_after: float = _setting(86_400.0, "seconds after which a file of no document is removed")
    webhook_networks: tuple[str, ...] = _setting(
        (), "networks that webhooks may lead to although they are not public"
    )
    language: str | None = _setting(
        None, "language of explanations: en, es, pt, pl, de (none: the environment's)"
    )

    def __post_init__(self) -> None:
        check_interval(self.reset_interval)
        _check_store(self.store)
        _check_broker(self.broker)
        if self.engine not in _ENGINES:
            raise InvalidSetting(f'engine must be "local" or "celery"; got {self.engine!r}')
        _check_files(self.files)
        if self.sandbox not in _SANDBOXES:
            raise InvalidSetting(f'sandbox must be "best" or "strict"; got {self.sandbox!r}')
        _check_languages(self.ocr_languages)
        for name, (least, most) in _BOUNDS.items():
            _check_between(name, getattr(self, name), least, most)
        _check_networks(self.webhook_networks)
        _check_language(self.language)
        for name in ("requests_a_second", "bytes_a_day"):
            _check_above_zero(name, getattr(self, name))
        self.rules()

    def needed_broker(self) -> str:
        """The broker, for whoever cannot do without one."""
        if self.broker is None:
            raise UsageError(
                "no broker is set; name one in FAIRLEAD_BROKER or fairlead.toml, such as "
                'broker = "amqp://localhost"'
            )
        return self.broker

    def rules(self) -> Rules:
        """The rules that these settings ask for."""
        return Rules(
            policy=None if self.policy is None else check_policy(self.policy),
            unit=self.unit,
            reset_interval=self.reset_interval,
            thresholds=self.thresholds,
            reset=self.reset,
            lane=self._lane(),
            retry=RetryRule(self.max_attempts, self.retry_delay),
            parts=PartsRule(self.max_depth, self.max_members, self.max_unpacked_bytes),
            lease=self.lease,
            daily_bytes=self.bytes_a_day,
        )

    def _lane(self) -> OverdueLane | None:
        after = self.reset_interval if self.overdue_after is None else self.overdue_after
        return OverdueLane(after, self.lane_share) if self.overdue_lane else None


def _check_between(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise InvalidSetting(f"{name} must be from {least:,} to {most:,}; got {value!r}")


def _check_broker(broker: str | None) -> None:
    if broker is not None and broker.partition("://")[0] not in _BROKERS:
        raise InvalidSetting(
            f"broker must be a URL that begins with {'://, '.join(_BROKERS)}://; "
            f"got {without_secrets(broker)!r}"
        )


def _check_languages(languages: tuple[str, ...]) -> None:
    if not languages or not all(_LANGUAGE.fullmatch(each) for each in languages):
        raise InvalidSetting(
            f"ocr_languages must be names of Tesseract's languages, such as eng; got {languages!r}"
        )


def _check_networks(networks: tuple[str, ...]) -> None:
    for each in networks:
        try:
            ip_network(each)
        except ValueError as error:
            raise InvalidSetting(
                f"webhook_networks must be networks such as 10.1.0.0/16; got {each!r}: {error}"
            ) from None


def _check_language(language: str | None) -> None:
    if language not in (None, *LANGUAGES):
        raise InvalidSetting(f"language must be one of {', '.join(LANGUAGES)}; got {language!r}")


def _check_store(url: str | None) -> None:
    if url is not None and not url.startswith(("postgresql://", "postgres://")):
        raise InvalidSetting(
            "store must be a URL such as postgresql://user:password@host/database, or none; "
            f"got one that begins with {url.partition(':')[0][:20]!r}"
        )


def _check_files(place: str | None) -> None:
    if place is not None and "://" in place and not place.startswith("s3://"):
        raise InvalidSetting(
            "files must be a folder, or a URL such as s3://bucket/prefix?region=eu-central-1; "
            f"got one that begins with {place.partition(':')[0][:20]!r}"
        )


def _check_above_zero(name: str, value: float | None) -> None:
    if value is not None and not 0 < value < 10**15:
        raise InvalidSetting(f"{name} must be above 0, or none; got {value!r}")


def without_secrets(value: Any) -> Any:
    """A setting's value; the password in an address, or whatever it is told to carry, masked."""
    if not isinstance(value, str) or "://" not in value:
        return value
    masked = re.sub(r"(://[^:@/]*):[^@]*@", r"\1:****@", value)
    return re.sub(r"((?:password|secret|key|token)[a-z_]*)=[^&]*", r"\1=****", masked, flags=re.I)


class Explained(NamedTuple):
    """One setting, with where its value comes from."""

    name: str
    value: Any
    source: str
    help: str


class Sources:
    """Settings with their sources, read again when the file changes."""

    def __init__(
        self,
        data: Path,
        *,
        flags: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.file = data / FILE_NAME
        self._flags = {name: value for name, value in (flags or {}).items() if value is not None}
        self._environment = os.environ if environment is None else environment
        self._stamp = self._file_stamp()
        self._settings, self._origin = self._load()
        self._rules = self._settings.rules()

    def settings(self) -> Settings:
        """The settings in force. A file that became invalid is left aside until it is mended."""
        stamp = self._file_stamp()
        if stamp != self._stamp:
            self._stamp = stamp
            self._reload()
        return self._settings

    def rules(self) -> Rules:
        """The rules in force."""
        self.settings()
        return self._rules

    def explain(self) -> list[Explained]:
        """Every setting with its value and where that comes from."""
        settings = self.settings()
        return [
            Explained(
                each.name,
                without_secrets(getattr(settings, each.name)),
                self._origin.get(each.name, "default"),
                each.metadata["help"],
            )
            for each in fields(Settings)
        ]

    def _reload(self) -> None:
        try:
            self._settings, self._origin = self._load()
            self._rules = self._settings.rules()
        except InvalidSetting as error:
            _log.warning("fairlead: %s; until then the settings of before hold", error)

    def _load(self) -> tuple[Settings, dict[str, str]]:
        values: dict[str, Any] = {}
        origin: dict[str, str] = {}
        layers = (
            (str(self.file), self._from_file()),
            ("environment", self._from_environment()),
            ("flag", self._flags),
        )
        for source, found in layers:
            values |= found
            origin |= dict.fromkeys(found, source)
        return Settings(**{name: _converted(name, value) for name, value in values.items()}), origin

    def _from_file(self) -> dict[str, Any]:
        try:
            with self.file.open("rb") as stream:
                found = tomllib.load(stream)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            raise InvalidSetting(
                f"{self.file} cannot be read ({error.strerror}); let this user read it, "
                "or choose another folder with --data"
            ) from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InvalidSetting(f"{self.file} cannot be read as TOML: {error}; mend it") from None
        for name in found:
            _check_known(name, str(self.file))
        return found

    def _from_environment(self) -> dict[str, str]:
        found = {
            variable.removeprefix(ENVIRONMENT_PREFIX).lower(): value
            for variable, value in self._environment.items()
            if variable.startswith(ENVIRONMENT_PREFIX) and variable not in NOT_SETTINGS
        }
        for name in found:
            _check_known(name, f"environment variable {ENVIRONMENT_PREFIX}{name.upper()}")
        return found

    def _file_stamp(self) -> tuple[int, ...] | None:
        try:
            found = self.file.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size


def _check_known(name: str, where: str) -> None:
    if name not in _CONVERTERS:
        raise InvalidSetting(
            f"{where} sets {name!r}, which is no setting; see: fairlead config show"
        )


def _converted(name: str, value: Any) -> Any:
    convert, expected = _CONVERTERS[name]
    try:
        return convert(value)
    except (TypeError, ValueError):
        raise InvalidSetting(f"{name} must be {expected}; got {value!r}") from None


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError
    return float(value)


def _whole(value: Any) -> int:
    if isinstance(value, str):
        return int(value)
    if type(value) is not int:
        raise TypeError
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if isinstance(value, str) and value.lower() in words:
        return words[value.lower()]
    raise TypeError


def _wholes(value: Any) -> tuple[int, ...]:
    return tuple(_whole(each) for each in (value.split(",") if isinstance(value, str) else value))


def _texts(value: Any) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    return tuple(
        each for each in (_text(part).strip() for part in parts) if each not in ("", "none")
    )


def _text_or_none(value: Any) -> str | None:
    return None if value in (None, "none") else _text(value)


def _whole_or_none(value: Any) -> int | None:
    return None if value in (None, "none") else _whole(value)


def _number_or_none(value: Any) -> float | None:
    return None if value in (None, "none") else _number(value)


_CONVERTERS: dict[str, tuple[Callable[[Any], Any], str]] = {
    each.name: {
        "float": (_number, "a number"),
        "int": (_whole, "a whole number"),
        "bool": (_truth, "true or false"),
        "tuple[int, ...]": (_wholes, "whole numbers, such as -2, -4, -6"),
        "str | None": (_text_or_none, 'a text, or "none"'),
        "tuple[str, ...]": (_texts, "texts with commas between"),
        "int | None": (_whole_or_none, 'a whole number, or "none"'),
        "float | None": (_number_or_none, 'a number, or "none"'),
    }.get(str(each.type), (_text, "a text"))
    for each in fields(Settings)
}
