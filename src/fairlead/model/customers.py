"""Customers: their settings, their records, and their JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, NamedTuple, get_args, get_origin

from msgspec import Meta, Struct, structs

from fairlead.errors import InvalidSetting
from fairlead.model.json import Record, Time

LONGEST_RESET_INTERVAL = 100 * 365 * 86_400
Cap = Annotated[int, Meta(ge=1, le=10**12)]
PendingCap = Annotated[int, Meta(ge=0, le=10**12)]
LONGEST_REASON = 500
ReasonText = Annotated[str, Meta(min_length=1, max_length=LONGEST_REASON)]
Rate = Annotated[float, Meta(ge=0.001, le=1e6)]
Interval = Annotated[float, Meta(ge=0, le=LONGEST_RESET_INTERVAL)]
AccountName = Annotated[str, Meta(min_length=1, max_length=200)]
Weight = Annotated[float, Meta(ge=0.001, le=1000)]
_WEIGHT_FORM = {
    "label": "Weight",
    "hint": "Its share of the work under the fair policy; 1 is the usual one.",
}
_PROCESSING_FORM = {"label": "Cap on documents processing at once"}
_PENDING_FORM = {
    "label": "Cap on pending documents",
    "hint": "Empty: no cap. Above the cap on pending documents, new ones are refused.",
}


class _Settings(Record, frozen=True, kw_only=True):
    """The fields of `CustomerSettings`, which `Customer` has too.

    A setting with a `label` is in the dashboard's form.
    """

    account: Annotated[
        AccountName | None, Meta(description="Account that the customer shares with others.")
    ] = None
    weight: Annotated[
        Weight,
        Meta(description="Share of processing time under fair.", extra=_WEIGHT_FORM),
    ] = 1.0
    processing_cap: Annotated[
        Cap | None,
        Meta(description="Limit of documents processing at once.", extra=_PROCESSING_FORM),
    ] = None
    pending_cap: Annotated[
        PendingCap | None,
        Meta(description="Limit of pending documents; more are refused.", extra=_PENDING_FORM),
    ] = None
    requests_a_second: Annotated[
        Rate | None, Meta(description="Rate limit: HTTP requests a second.")
    ] = None
    requests_burst: Annotated[Cap | None, Meta(description="Rate limit: requests at once.")] = None
    bytes_a_day: Annotated[
        Cap | None, Meta(description="Quota: bytes a day, UTC; more are refused.")
    ] = None
    reset_interval: Annotated[
        Interval | None,
        Meta(description="The customer's own reset interval.", extra={"unit": "seconds"}),
    ] = None
    thresholds: Annotated[
        tuple[int, ...] | None, Meta(description="The customer's own thresholds.")
    ] = None
    blocked: Annotated[
        ReasonText | None, Meta(description="Why its new documents are refused.")
    ] = None


class Setting(NamedTuple):
    """One setting of a customer, as its annotation defines it. `kind` is its Python type.

    `label` is its name in the dashboard's form, `hint` the text below it.
    """

    name: str
    kind: Any
    default: Any
    least: float
    most: float
    description: str
    label: str | None
    hint: str | None
    is_seconds: bool

    @property
    def is_whole(self) -> bool:
        return self.kind is int


@cache
def customer_settings() -> tuple[Setting, ...]:
    """All settings of a customer, in their order."""
    return tuple(_setting(field) for field in structs.fields(CustomerSettings))


def _setting(field: structs.FieldInfo) -> Setting:
    kind, *metas = get_args(field.type)
    if field.default is None:
        kind = get_args(kind)[0]
    if get_origin(kind) is Annotated:
        kind, *inner = get_args(kind)
        metas = [*inner, *metas]
    extra = metas[-1].extra or {}
    return Setting(
        name=field.name,
        kind=kind,
        default=field.default,
        least=metas[0].ge or 0,
        most=metas[0].le or 0,
        description=metas[-1].description,
        label=extra.get("label"),
        hint=extra.get("hint"),
        is_seconds=extra.get("unit") == "seconds",
    )


class CustomerSettings(_Settings, frozen=True):
    """The settings of one customer. None: the installation's setting.

    The weight belongs to the customer's account: all customers of one account share it.
    """

    def __post_init__(self) -> None:
        for setting in customer_settings():
            value = getattr(self, setting.name)
            if value is not None or setting.default is not None:
                _check(setting, value)

    def changed(self, changes: Mapping[str, Any]) -> CustomerSettings:
        """These settings with some changes; None restores a default."""
        defaults = {setting.name: setting.default for setting in customer_settings()}
        for name in changes:
            if name not in defaults:
                raise InvalidSetting(
                    f"a customer has the settings {', '.join(defaults)}; got {name}"
                )
        values = {name: defaults[name] if new is None else new for name, new in changes.items()}
        return structs.replace(self, **values)

    def changes(self) -> dict[str, Any]:
        """The settings that differ from their defaults."""
        return {
            setting.name: value
            for setting in customer_settings()
            if (value := getattr(self, setting.name)) != setting.default
        }


def _check(setting: Setting, value: Any) -> None:
    if setting.name == "reset_interval":
        check_interval(value)
    elif setting.name == "thresholds":
        check_thresholds(value)
    elif setting.name == "blocked":
        check_reason(value)
    elif setting.kind in (int, float):
        _check_number(setting, value)


def _check_number(setting: Setting, value: Any) -> None:
    is_kind = type(value) is int if setting.is_whole else is_number(value)
    if not (is_kind and setting.least <= value <= setting.most):
        kind = "whole number" if setting.is_whole else "number"
        bounds = f"from {_shown(setting.least)} to {_shown(setting.most)}"
        or_none = ", or none" if setting.default is None else ""
        raise InvalidSetting(f"{setting.name} must be a {kind} {bounds}{or_none}; got {value!r}")


def _shown(bound: float) -> str:
    return f"{bound:,.0f}" if bound > 1000 else f"{bound:g}"


def check_interval(seconds: float) -> float:
    """The reset interval as a float; InvalidSetting unless it is from 0 to 100 years."""
    if not is_number(seconds) or not 0 <= seconds <= LONGEST_RESET_INTERVAL:
        raise InvalidSetting(
            f"reset_interval must be a number of seconds from 0 to {LONGEST_RESET_INTERVAL:,} "
            f"(100 years); got {seconds!r}"
        )
    return float(seconds)


def check_reason(reason: Any) -> str:
    """The reason of a block; InvalidSetting if it is empty, too long or not printable."""
    is_text = isinstance(reason, str) and reason.isprintable() and reason.strip()
    if not is_text or len(reason) > LONGEST_REASON:
        raise InvalidSetting(
            f"blocked must be a reason of 1 to {LONGEST_REASON} printable characters, or none"
        )
    return str(reason)


def check_thresholds(thresholds: Sequence[int]) -> tuple[int, ...]:
    """The thresholds as a tuple; InvalidSetting unless they are decreasing integers up to 0."""
    bounds = tuple(thresholds)
    if not bounds or any(type(bound) is not int or bound > 0 for bound in bounds):
        raise InvalidSetting(
            f"thresholds must be whole numbers of 0 or less, such as -2, -4, -6; got {bounds!r}"
        )
    if any(later >= earlier for earlier, later in pairwise(bounds)):
        raise InvalidSetting(f"thresholds must decrease, such as -2, -4, -6; got {bounds!r}")
    return bounds


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class Counter(Struct, frozen=True):
    """A customer's count, and the time from which its reset interval runs.

    With `reset="idle"` that is the time of the last check, with `"window"` that of the first one
    after a reset.
    """

    count: int
    updated_at: float


class Check(Struct, frozen=True):
    """The result of the rule for one document. The lowest (rank, arrival) goes first."""

    count: int
    priority: int
    counter: Counter
    rank: float


class Standing(Struct, frozen=True, kw_only=True):
    """The position of a customer under the fair rule.

    `count` is that of its next document. `had_lately` is the work started for it lately, in seconds
    per weight; `is_beyond`: it exceeds the allowance. `fades_at` is when it will have faded to 0.
    `accounts_before` is the number of accounts with a better place, `accounts_beyond` the number of
    others beyond their allowance; both are 0 unless they are asked for.
    """

    count: int
    had_lately: float
    is_beyond: bool
    fades_at: float
    accounts_before: int = 0
    accounts_beyond: int = 0


class CustomerRecord(Struct, frozen=True, kw_only=True):
    """A customer as it is stored, with its numbers of documents.

    `counter` is the record of the classic rule; `standing` is None under classic.
    """

    name: str
    created_at: float
    counter: Counter | None
    paused: bool
    settings: CustomerSettings
    waiting: int
    processing: int
    last_started_at: float | None
    oldest_waiting_at: float | None
    standing: Standing | None = None

    @property
    def pending(self) -> int:
        return self.waiting + self.processing

    @property
    def cap(self) -> int | None:
        """The most documents that may be processed at once; None: any number."""
        return self.settings.processing_cap


class _Shown(_Settings, frozen=True):
    name: str
    pending: int
    waiting: int
    processing: int
    count: int | None
    next_priority: int
    resets_in: int | None
    oldest_wait: float | None
    paused: bool


class Customer(_Shown, frozen=True, kw_only=True):
    """A customer. A setting is null if the installation's setting applies.

    `count` and `next_priority` follow the rule in force; `resets_in` and `oldest_wait` are seconds.
    """

    created_at: Time


class Share(Record, frozen=True):
    """One account with waiting documents, or with recent work.

    `had_lately` is its recent work in seconds, which fades with the reset interval, and `share` its
    part of all recent work. `may_start`: a worker could start one of its waiting documents now; it
    is not paused or at its cap, and workers serve a queue of it whose quota allows a start. Those
    accounts compete: `behind` is by how many seconds of work one is behind its share by weight,
    compared with the others; below 0, it is ahead. It is 0 for all other accounts.
    """

    name: str
    had_lately: float
    share: float
    behind: float
    weight: float
    waiting: int
    may_start: bool = True

    @property
    def competes(self) -> bool:
        return self.may_start and self.waiting > 0


class Overdue(Record, frozen=True):
    """The customer that could have started longest ago, and for how many seconds it waits."""

    customer: str
    seconds: float


class Fairness(Record, frozen=True, kw_only=True):
    """How fair the queue is among the customers that may start documents now.

    `waiting_customers` is their number, and `jain_index` that of their accounts; null for fewer
    than two. A customer without recent work gets its first start within `newcomer_bound` seconds,
    and every customer that may start gets a start within `start_bound` seconds; null: there is no
    bound. `bound_broken`: the customer of `most_overdue` waits longer. `lane_share` is the overdue
    lane's part of the claims.
    """

    policy: str
    workers: int
    waiting_customers: int
    jain_index: float | None
    most_overdue: Overdue | None
    lane_share: float | None
    longest_document: float
    newcomer_bound: float | None
    start_bound: float | None
    bound_broken: bool
    accounts: tuple[Share, ...]

    @property
    def worst(self) -> Share | None:
        """The account that is furthest behind its share, of those that compete."""
        competing = (account for account in self.accounts if account.competes)
        return max(competing, key=lambda account: account.behind, default=None)


class Customers(Record, frozen=True):
    """All customers, and how fair the queue is."""

    customers: list[Customer]
    fairness: Fairness
