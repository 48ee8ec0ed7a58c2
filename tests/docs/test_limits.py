"""The page of limits has the numbers of the code."""

from __future__ import annotations

import re
from pathlib import Path

from fairlead.config.settings import Settings
from fairlead.model.names import LONGEST_CUSTOMER, LONGEST_KEY, LONGEST_NAME
from fairlead.model.submissions import LONGEST_REFERENCE, MOST_METADATA_BYTES
from fairlead.model.webhooks import MOST_OF_A_CUSTOMER
from fairlead.server.event_feed import MOST_QUEUED, MOST_STREAMS_OF_A_KEY
from fairlead.server.middleware import MAX_JSON_BYTES, MAX_RESULT_JSON_BYTES
from fairlead.server.routes.documents import LONGEST_WAIT
from fairlead.server.schemas import MOST_JOBS
from fairlead.steps.results import MOST_DATA_BYTES, MOST_FILES
from fairlead.steps.run import LONGEST_MESSAGE
from fairlead.worker.pulled_jobs import LONGEST_JOB

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "limits.md"
NUMBERS = {
    "name of a customer or account": [LONGEST_CUSTOMER],
    "name of a document or file": [LONGEST_NAME],
    "idempotency key": [LONGEST_KEY],
    "reference of a document": [LONGEST_REFERENCE],
    "metadata of a document": [MOST_METADATA_BYTES],
    "data of a document": [MOST_DATA_BYTES],
    "files of a result": [MOST_FILES],
    "parts of a result": [MOST_FILES],
    "sentence of a refusal": [LONGEST_MESSAGE],
    "jobs of one claim of pulled steps": [MOST_JOBS],
    "a job of a pulled step": [LONGEST_JOB / 3600],
    "event streams of one API key": [MOST_STREAMS_OF_A_KEY],
    "events that wait for a slow reader of a stream": [MOST_QUEUED],
    "a wait for a document": [LONGEST_WAIT],
    "webhooks of a customer": [MOST_OF_A_CUSTOMER],
    "JSON of a request": [MAX_JSON_BYTES, MAX_RESULT_JSON_BYTES],
}


def rows() -> dict[str, str]:
    lines = [line.split("|") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    return {cells[1].strip(): cells[2].strip() for cells in lines[1:]}


def test_fixed_limits_are_those_of_the_code() -> None:
    told = {
        what: [float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", limit)]
        for what, limit in rows().items()
        if re.search(r"\d", limit)
    }
    assert told == NUMBERS


def test_other_limits_are_settings() -> None:
    settings = re.findall(r"`([a-z_]+)`", " ".join(rows().values()))
    named = [name for name in settings if name != "RetryLater"]
    assert set(named) <= set(Settings.__dataclass_fields__)
