"""Settings: from flags, else the environment, else `fairlead.toml`, else defaults.

`Settings` is the only list of settings: each field has its help, bounds, choices and secrecy.
The file is in the data folder, so all processes of one folder follow the same rules. It is read
again when it changes: a new value applies from the next claim on.
"""

from __future__ import annotations

import logging
import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from ipaddress import ip_network
from pathlib import Path
from typing import Any, NamedTuple

from fairlead.errors import InvalidSetting, Message, UnknownPipeline, UsageError
from fairlead.i18n import LANGUAGES
from fairlead.model.customers import check_interval
from fairlead.model.pipelines import (
    DEFAULT_PIPELINES,
    Pipeline,
    check_outputs,
    check_steps,
    pipelines_from,
)
from fairlead.policy.attachments import PartsRule
from fairlead.policy.classic import DEFAULT_RESET_INTERVAL, DEFAULT_THRESHOLDS, Reset
from fairlead.policy.fair import DEFAULT_UNIT
from fairlead.policy.overdue_lane import OverdueLane
from fairlead.policy.retry import RetryRule
from fairlead.policy.rules import Rules, check_policy

_log = logging.getLogger(__name__)

FILE_NAME = "fairlead.toml"
ENVIRONMENT_PREFIX = "FAIRLEAD_"
NOT_SETTINGS = frozenset({"FAIRLEAD_DATA", "FAIRLEAD_KEY", "FAIRLEAD_URL"})


def _setting(
    default: Any,
    help_text: str,
    *,
    bounds: tuple[float, float] | None = None,
    choices: tuple[str, ...] | None = None,
    check: Callable[[str], object] = str.isprintable,
    secret: bool = False,
) -> Any:
    """A setting. `check` returns false or raises ValueError for an invalid text."""
    return field(
        default=default,
        metadata={
            "help": help_text,
            "bounds": bounds,
            "choices": choices,
            "check": check,
            "secret": secret,
        },
    )


@dataclass(frozen=True)
class Settings:
    """All settings of an installation."""

    engine: str = _setting(
        "local",
        '"local": worker processes on this machine; "celery": Celery workers',
        choices=("local", "celery"),
    )
    broker: str | None = _setting(
        None,
        "URL of the Celery broker, such as amqp://user:password@host or redis://host",
        check=re.compile(r"(amqps?|rediss?)://.*").fullmatch,
        secret=True,
    )
    store: str | None = _setting(
        None,
        "URL of a PostgreSQL database, such as postgresql://user:password@host/database "
        "(none: SQLite in the data folder)",
        check=re.compile(r"postgres(ql)?://.*").fullmatch,
        secret=True,
    )
    files: str | None = _setting(
        None,
        "folder for documents and texts, or a URL such as s3://bucket/prefix?region=eu-central-1, "
        "shared by all machines (none: the data folder)",
        check=re.compile(r"s3://.*|(?!.*://).*").fullmatch,
        secret=True,
    )
    policy: str | None = _setting(
        None, '"classic" or "fair" (none: the policy of the data folder; classic in a new one)'
    )
    unit: float = _setting(DEFAULT_UNIT, "fair: seconds that a standard document takes")
    reset_interval: float = _setting(
        DEFAULT_RESET_INTERVAL, "seconds after which a customer's count is reset to 0"
    )
    reset: Reset = _setting(  # noqa: RUF009 (ruff takes a Literal for a call)
        "idle", '"idle": reset after the last document; "window": reset every interval'
    )
    thresholds: tuple[int, ...] = _setting(
        DEFAULT_THRESHOLDS, "counts below which a document gets the next lower priority"
    )
    overdue_lane: bool = _setting(
        default=True, help_text="let customers that waited too long for a start go first"
    )
    overdue_after: float | None = _setting(
        None, "seconds without a start after which a customer is overdue (none: reset_interval)"
    )
    lane_share: int = _setting(4, "the overdue lane gets at most one claim in this many")
    pipelines: tuple[Pipeline, ...] = _setting(
        DEFAULT_PIPELINES,
        "steps, outputs and quotas by pipeline: tables [pipelines.NAME] with steps, outputs, "
        "limit, max_running",
    )
    workers: int = _setting(2, "number of worker processes", bounds=(1, 256))
    lease: float = _setting(
        30.0, "seconds without a heartbeat after which a document is requeued", bounds=(1, 86_400)
    )
    max_attempts: int = _setting(
        3, "attempts after which a document whose worker is lost fails", bounds=(1, 1000)
    )
    retry_delay: float = _setting(
        2.0, "seconds before the second attempt; doubles for each further"
    )
    time_limit: float = _setting(
        120.0, "seconds after which reading a document is stopped", bounds=(1, 86_400)
    )
    memory_limit: int = _setting(
        1_500_000_000, "bytes of memory for reading one document", bounds=(200_000_000, 10**15)
    )
    max_characters: int = _setting(
        20_000_000, "characters of text stored for one document", bounds=(1, 200_000_000)
    )
    max_pages: int = _setting(5_000, "pages read of one document", bounds=(1, 1_000_000))
    max_pixels: int = _setting(
        100_000_000, "pixels of the largest image that is read", bounds=(1, 10**10)
    )
    max_unpacked_bytes: int = _setting(
        500_000_000, "bytes that one document may unpack to", bounds=(1, 2_000_000_000)
    )
    max_ratio: int = _setting(
        200, "largest ratio of unpacked to packed size of a document", bounds=(1, 1_000_000)
    )
    max_members: int = _setting(1_000, "files inside one document", bounds=(1, 1_000_000))
    max_depth: int = _setting(5, "levels of documents inside documents", bounds=(0, 20))
    result_limit: int = _setting(
        100_000_000, "bytes that one step may return, files included", bounds=(1, 10**12)
    )
    import_limit: float = _setting(
        300.0, "seconds for importing the module of a step", bounds=(1, 86_400)
    )
    ocr_languages: tuple[str, ...] = _setting(
        ("eng", "spa", "por", "pol", "deu", "fra"),
        "languages for OCR, by Tesseract's names, such as eng",
        check=re.compile(r"[A-Za-z0-9_/-]{1,40}").fullmatch,
    )
    sandbox: str = _setting(
        "best",
        '"best": use the sandbox features of this machine; "strict": refuse to start without all',
        choices=("best", "strict"),
    )
    max_document_bytes: int = _setting(
        1_000_000_000, "bytes of the largest document that is accepted", bounds=(1, 10**15)
    )
    strict_customers: bool = _setting(
        default=False, help_text="refuse documents of customers that were not added"
    )
    host: str = _setting("127.0.0.1", "address that the server listens on")
    port: int = _setting(
        8321, "port that the server listens on; 0: any free one", bounds=(0, 65_535)
    )
    requests_a_second: float | None = _setting(
        100.0, "rate limit: requests a second per customer (none: unlimited)", bounds=(1e-6, 1e9)
    )
    requests_burst: int = _setting(
        500, "rate limit: requests that a customer may send at once", bounds=(1, 10**9)
    )
    bytes_a_day: int | None = _setting(
        None, "quota: bytes per customer and day, UTC (none: unlimited)", bounds=(1, 10**15)
    )
    max_upload_bytes: int = _setting(
        2_000_000_000, "bytes of the largest request that the server accepts", bounds=(1, 10**15)
    )
    max_upload_files: int = _setting(100, "documents in one request", bounds=(1, 10_000))
    request_timeout: float = _setting(
        20.0, "seconds to wait for headers, and for each piece of a body", bounds=(0.1, 3600)
    )
    sweep_after: float = _setting(  # bounds: longer than any submission
        86_400.0, "seconds after which a file of no document is removed", bounds=(3600, 10**9)
    )
    webhook_networks: tuple[str, ...] = _setting(
        (), "private networks that webhooks may be sent to, such as 10.1.0.0/16", check=ip_network
    )
    frame_ancestors: tuple[str, ...] = _setting(
        (),
        "sites that may embed a customer's page by its link, such as https://shop.example.com",
        check=re.compile(r"'self'|\*|https?://(\*\.)?[A-Za-z0-9.-]+(:(\d{1,5}|\*))?").fullmatch,
    )
    language: str | None = _setting(
        None, "language of explanations (none: that of the environment)", choices=LANGUAGES
    )

    def __post_init__(self) -> None:
        for name, metadata in METADATA.items():
            _check(name, getattr(self, name), metadata)
        if not self.ocr_languages:
            raise InvalidSetting("ocr_languages must be at least one language, such as eng")
        check_interval(self.reset_interval)
        self.rules()

    def known_pipeline(self, name: str) -> Pipeline:
        """The pipeline of this name; UnknownPipeline if there is none."""
        for pipeline in self.pipelines:
            if pipeline.name == name:
                return pipeline
        raise UnknownPipeline(
            Message(
                "unknown pipeline {name}; known are: {known}",
                name=repr(name),
                known=", ".join(known.name for known in self.pipelines),
            )
        )

    @property
    def files_url(self) -> str | None:
        """The URL of object storage, if `files` is one."""
        return self.files if self.files and "://" in self.files else None

    @property
    def files_folder(self) -> Path | None:
        """The folder of documents and texts, if `files` is one."""
        return None if self.files is None or self.files_url else Path(self.files)

    def needed_broker(self) -> str:
        """The broker; UsageError if it is not set."""
        if self.broker is None:
            raise UsageError(
                "no broker is set; set FAIRLEAD_BROKER, or add it to fairlead.toml, such as "
                'broker = "amqp://localhost"'
            )
        return self.broker

    def rules(self) -> Rules:
        """The policy rules of these settings."""
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
            pipelines=self.pipelines,
        )

    def _lane(self) -> OverdueLane | None:
        after = self.reset_interval if self.overdue_after is None else self.overdue_after
        return OverdueLane(after, self.lane_share) if self.overdue_lane else None


METADATA = {setting.name: setting.metadata for setting in fields(Settings)}
"""Help, bounds, choices, check and secrecy of each setting, by its name."""


def _check(name: str, value: Any, metadata: Mapping[str, Any]) -> None:
    bounds, choices = metadata["bounds"], metadata["choices"]
    if value is None:
        return
    if bounds is not None and not bounds[0] <= value <= bounds[1]:
        raise InvalidSetting(f"{name} must be from {bounds[0]:,} to {bounds[1]:,}; got {value!r}")
    if choices is not None and value not in choices:
        raise InvalidSetting(f"{name} must be one of {', '.join(choices)}; got {value!r}")
    texts = value if isinstance(value, tuple) else (value,)
    if not all(_passes(metadata["check"], text) for text in texts if isinstance(text, str)):
        received = f"{value.partition(':')[0][:20]}…" if metadata["secret"] else value
        raise InvalidSetting(f"{name} must be the {metadata['help']}; got {received!r}")


def _passes(check: Callable[[str], object], text: str) -> bool:
    try:
        return bool(check(text))
    except ValueError:
        return False


def mask_url(value: Any) -> Any:
    """A URL with its password and secret parameters masked."""
    if not isinstance(value, str):
        return value
    masked = re.sub(r"(://[^:@/]*):[^@]*@", r"\1:****@", value)
    return re.sub(r"((?:password|secret|key|token)[a-z_]*)=[^&]*", r"\1=****", masked, flags=re.I)


class Explained(NamedTuple):
    """A setting, its value and the source of the value."""

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
        steps: Sequence[str] | None = None,
        outputs: Sequence[str] | None = None,
    ) -> None:
        """`steps` and `outputs` override those of the default pipeline."""
        self._steps = None if steps is None else check_steps("the call: steps", steps)
        self._outputs = outputs
        self.file = data / FILE_NAME
        self._flags = {name: value for name, value in (flags or {}).items() if value is not None}
        self._environment = os.environ if environment is None else environment
        self._stamp = self._file_stamp()
        self._settings, self._origin = self._load()
        self._rules = self._settings.rules()

    def settings(self) -> Settings:
        """The settings in force; while the file is invalid, the last valid ones."""
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
        """Every setting with its value, secrets masked, and the source of the value."""
        settings = self.settings()
        return [
            Explained(
                name,
                _explained(value, is_secret=metadata["secret"]),
                self._origin.get(name, "default"),
                metadata["help"],
            )
            for name, metadata in METADATA.items()
            for value in [getattr(settings, name)]
        ]

    def _reload(self) -> None:
        try:
            self._settings, self._origin = self._load()
            self._rules = self._settings.rules()
        except InvalidSetting as error:
            _log.warning("fairlead: %s; the last valid settings stay in force", error)

    def _load(self) -> tuple[Settings, dict[str, str]]:
        values: dict[str, Any] = {}
        origin: dict[str, str] = {}
        layers = (
            (str(self.file), self._from_file()),
            ("environment", self._from_environment()),
            ("flag", self._flags),
        )
        for source, layer in layers:
            values |= layer
            origin |= dict.fromkeys(layer, source)
        parsed = {name: _parsed(name, value) for name, value in values.items()}
        if self._steps is not None or self._outputs is not None:
            parsed["pipelines"] = self._with_overrides(*parsed.get("pipelines", DEFAULT_PIPELINES))
            origin["pipelines"] = "flag"
        return Settings(**parsed), origin

    def _with_overrides(self, default: Pipeline, *others: Pipeline) -> tuple[Pipeline, ...]:
        """The pipelines, with the overridden steps and outputs of the default one."""
        steps = default.steps if self._steps is None else self._steps
        outputs = default.outputs if self._outputs is None else self._outputs
        outputs = check_outputs("the call: default", outputs, steps)
        return default._replace(steps=steps, outputs=outputs), *others

    def _from_file(self) -> dict[str, Any]:
        try:
            with self.file.open("rb") as stream:
                values = tomllib.load(stream)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            raise InvalidSetting(
                f"{self.file} cannot be read ({error.strerror}); give this user read permission, "
                "or choose another folder with --data"
            ) from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InvalidSetting(f"{self.file} is not valid TOML: {error}; correct it") from None
        for name in values:
            _check_known(name, str(self.file))
        return values

    def _from_environment(self) -> dict[str, str]:
        values = {
            variable.removeprefix(ENVIRONMENT_PREFIX).lower(): value
            for variable, value in self._environment.items()
            if variable.startswith(ENVIRONMENT_PREFIX) and variable not in NOT_SETTINGS
        }
        for name in values:
            _check_known(name, f"environment variable {ENVIRONMENT_PREFIX}{name.upper()}")
        return values

    def _file_stamp(self) -> tuple[int, ...] | None:
        try:
            status = self.file.stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size


def _check_known(name: str, where: str) -> None:
    if name not in METADATA:
        raise InvalidSetting(
            f"{where} sets the unknown setting {name!r}; see: fairlead config show"
        )


def _explained(value: Any, *, is_secret: bool) -> Any:
    if isinstance(value, tuple) and value and isinstance(value[0], Pipeline):
        return {pipeline.name: pipeline.table() for pipeline in value}
    return mask_url(value) if is_secret else value


def _parsed(name: str, value: Any) -> Any:
    if name == "pipelines":
        return pipelines_from(value)
    kind, is_optional = _TYPES[name].removesuffix(" | None"), _TYPES[name].endswith(" | None")
    if is_optional and value in (None, "none"):
        return None
    try:
        return _parse(kind, value)
    except (AttributeError, KeyError, TypeError, ValueError):
        ending = ', or "none"' if is_optional else ""
        expected = _EXPECTED.get(kind, "a text")
        raise InvalidSetting(f"{name} must be {expected}{ending}; got {value!r}") from None


def _parse(kind: str, value: Any) -> Any:
    if kind.startswith("tuple"):
        parts = value.split(",") if isinstance(value, str) else value
        if kind == "tuple[str, ...]":
            parts = (part for part in map(str.strip, parts) if part not in ("", "none"))
        return tuple(_parse(kind[6:9], part) for part in parts)
    if kind == "bool":
        return value if isinstance(value, bool) else _TRUTH[value.lower()]
    if isinstance(value, bool) or (kind == "int" and isinstance(value, float)):
        raise TypeError
    if kind in ("int", "float"):
        return int(value) if kind == "int" else float(value)
    if not isinstance(value, str):
        raise TypeError
    return value


_TYPES = {setting.name: str(setting.type) for setting in fields(Settings)}
_TRUTH = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_EXPECTED = {
    "float": "a number",
    "int": "a whole number",
    "bool": "true or false",
    "tuple[int, ...]": "whole numbers, such as -2, -4, -6",
    "tuple[str, ...]": "texts separated by commas",
}
