"""Submissions that arrive together: those of one customer are checked as one, which costs less."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fairlead.core.documents import Document, Submission

Answer = list[Document] | Exception
Accept = Callable[[Sequence[Submission]], list[Answer]]


def submit_each(submissions: Sequence[Submission], accept: Accept) -> list[Answer]:
    """The answers to all submissions; where those of a customer are refused as one, each alone."""
    groups = _grouped(submissions)
    merged = accept([_merged([submissions[number] for number in group]) for group in groups])
    answers: dict[int, Answer] = {}
    alone: list[int] = []
    for group, answer in zip(groups, merged, strict=True):
        if isinstance(answer, Exception) and len(group) > 1:
            alone += group
        else:
            answers |= _parted(group, submissions, answer)
    again = accept([submissions[number] for number in alone]) if alone else []
    answers |= dict(zip(alone, again, strict=True))
    return [answers[number] for number in range(len(submissions))]


def _grouped(submissions: Sequence[Submission]) -> list[list[int]]:
    """Numbers of submissions, by customer; one with an idempotency key stands alone."""
    groups: dict[object, list[int]] = {}
    for number, each in enumerate(submissions):
        name = (each.customer, each.strict) if each.key is None else number
        groups.setdefault(name, []).append(number)
    return list(groups.values())


def _merged(group: Sequence[Submission]) -> Submission:
    if len(group) == 1:
        return group[0]
    documents = tuple(document for each in group for document in each.documents)
    return group[0]._replace(documents=documents)


def _parted(
    group: Sequence[int], submissions: Sequence[Submission], answer: Answer
) -> dict[int, Answer]:
    """The documents of each submission of the group."""
    if isinstance(answer, Exception) or len(group) == 1:
        return {group[0]: answer}
    parts: dict[int, Answer] = {}
    first = 0
    for number in group:
        last = first + len(submissions[number].documents)
        parts[number] = answer[first:last]
        first = last
    return parts
