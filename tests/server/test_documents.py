"""Documents over HTTP, against a real server process."""

from __future__ import annotations

import hashlib
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from apikit import PATIENT, Served, files_in, problem, raw_problem, upload

from fairlead import Fairlead
from fairlead.model.blobs import SHORT_BYTES
from fairlead.model.keys import id_of
from fairlead.server.middleware import MAX_JSON_BYTES

ARTICLE = b"An article about fairness."
LONG = b"long" * SHORT_BYTES


def done(client: httpx.Client, content: bytes = ARTICLE) -> str:
    id_ = str(upload(client, content).json()["id"])
    assert client.get(f"/v1/documents/{id_}", params={"wait": 60}).json()["state"] == "done"
    return id_


def form(options: str, content: bytes = ARTICLE) -> dict[str, Any]:
    """A form with one file, whose name is in this parameter."""
    head = f'--X\r\nContent-Disposition: form-data; name="file"{options}\r\n\r\n'
    return {
        "content": head.encode() + content + b"\r\n--X--\r\n",
        "headers": {"Content-Type": "Multipart/Form-Data; Boundary=X"},
    }


def test_a_document_is_accepted_processed_and_read(server: Served) -> None:
    client = server.customer("reader")
    answer = upload(client, ARTICLE)
    document = answer.json()
    assert answer.status_code == 202
    assert answer.headers["location"] == f"/v1/documents/{document['id']}"
    assert document["sha256"] == hashlib.sha256(ARTICLE).hexdigest()
    assert (document["state"], document["priority"], document["count"]) == ("waiting", 1, 0)
    ended = client.get(answer.headers["location"], params={"wait": 60}).json()
    assert ended["state"] == "done"
    text = client.get(answer.headers["location"] + "/text")
    assert text.headers["content-type"] == "text/plain; charset=utf-8"
    assert text.content == ARTICLE


def test_texts_come_as_accepted(server: Served) -> None:
    client = server.customer("reader")
    path = f"/v1/documents/{done(client)}/text"
    for accept, media_type in [
        ("text/markdown", "text/markdown; charset=utf-8"),
        ("application/json, text/plain;q=0.5", "application/json"),
        ("text/*", "text/plain; charset=utf-8"),
        ("text/plain;q=nan, text/markdown;q=0.1", "text/markdown; charset=utf-8"),
    ]:
        assert client.get(path, headers={"Accept": accept}).headers["content-type"] == media_type
    assert client.get(path, headers={"Accept": "application/json"}).json()["text"]
    refused = client.get(path, headers={"Accept": "image/png"})
    problem(refused, "not-acceptable", 406)
    assert refused.headers["vary"] == "Accept, Accept-Language"


def test_several_documents_come_together_or_not_at_all(server: Served) -> None:
    client = server.customer("several")
    answer = upload(client, b"one", b"two", data={"urgent": "true"})
    documents = answer.json()["documents"]
    assert [document["count"] for document in documents] == [0, -1]
    assert {document["urgent"] for document in documents} == {True}
    before = len(files_in(server.data))
    problem(upload(client, b"three", LONG, b""), "invalid-upload", 400)
    problem(upload(client, LONG, data={"urgent": "perhaps"}), "invalid-upload", 400)
    problem(upload(client, LONG, data={"colour": "red"}), "invalid-upload", 400)
    assert len(client.get("/v1/documents").json()["documents"]) == 2
    assert len(files_in(server.data)) == before


def test_the_media_type_of_an_upload_may_have_capitals(server: Served) -> None:
    sent = form("", b"c" * 2 * MAX_JSON_BYTES)
    answer = server.customer("loud").post("/v1/documents", **sent)
    assert answer.status_code == 202
    assert answer.json()["size"] == 2 * MAX_JSON_BYTES


@pytest.mark.parametrize(
    ("parameter", "name"),
    [
        ("; filename*=UTF-8''B%C3%BCro%20%e2%82%ac.txt", "Büro €.txt"),
        ("; FileName* = utf-8'de'a.txt; x=y", "a.txt"),
        ("; filename*=UTF-8''a.txt; filename=b.txt", "a.txt"),
        ("; filename=\"=?utf-8?B?/w==?=\"; filename*=utf-8''%C3%BF.txt", "ÿ.txt"),
        ('; filename="b*.txt"', "b*.txt"),
        ("; filename=\"a; filename*=utf-8''x.pdf\"", "a; filename*=utf-8''x.pdf"),
        ("; filename*=UTF-16''a.txt", "document"),
        ("", "document"),
    ],
)
def test_a_name_may_come_encoded(server: Served, parameter: str, name: str) -> None:
    answer = server.customer("encoded").post("/v1/documents", **form(parameter))
    assert (answer.status_code, answer.json()["name"]) == (202, name)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("%ff", "invalid-upload"), ("..%2Fa", "invalid-request"), ("%00", "invalid-request")],
)
def test_an_encoded_name_is_checked_as_any_other(server: Served, name: str, kind: str) -> None:
    answer = server.customer("encoded").post("/v1/documents", **form(f"; filename*=UTF-8''{name}"))
    problem(answer, kind, 400)


def test_an_idempotency_key_gives_the_same_document(server: Served) -> None:
    client = server.customer("again")
    headers = {"Idempotency-Key": "order-1"}
    first = upload(client, LONG, headers=headers).json()
    before = len(files_in(server.data))
    assert upload(client, LONG, headers=headers).json()["id"] == first["id"]
    problem(upload(client, LONG + b"er", headers=headers), "idempotency-conflict", 422)
    opened = {"data": {"password": "a"}, "headers": {"Idempotency-Key": "opened"}}
    locked = upload(client, b"x", **opened).json()
    assert upload(client, b"x", **opened).json()["id"] == locked["id"]
    opened["data"] = {"password": "b"}
    problem(upload(client, b"x", **opened), "idempotency-conflict", 422)
    assert len(files_in(server.data)) == before
    other = upload(server.customer("another"), b"another", headers=headers)
    assert other.status_code == 202
    client.delete(f"/v1/documents/{first['id']}")
    problem(upload(client, LONG, headers=headers), "deleted", 410)


def test_pages_stay_right_while_documents_arrive(server: Served) -> None:
    client = server.customer("pages")
    ids = [document["id"] for document in upload(client, *[b"x"] * 7).json()["documents"]]
    seen, cursor = [], None
    while True:
        page = client.get(
            "/v1/documents", params={"limit": 3} | ({"cursor": cursor} if cursor else {})
        )
        seen += [document["id"] for document in page.json()["documents"]]
        cursor = page.json()["next"]
        if cursor is None:
            break
        upload(client, b"later")
    assert seen == ids[::-1]


def test_lists_are_narrowed_and_bounded(server: Served) -> None:
    client = server.customer("lists")
    upload(client, *[b"x"] * 4)
    second = client.get("/v1/documents", params={"priority": 2}).json()["documents"]
    assert {document["priority"] for document in second} == {2}
    for params in ({"limit": -1}, {"limit": 5000}, {"state": "lost"}, {"priority": "high"}):
        problem(client.get("/v1/documents", params=params), "invalid-request", 400)
    foreign = upload(server.customer("pages"), b"x").json()["id"]
    for cursor in ("tampered", foreign, second[0]["id"][:-1]):
        answer = client.get("/v1/documents", params={"cursor": cursor})
        problem(answer, "invalid-cursor", 400)


def test_what_is_foreign_is_as_what_never_was(server: Served) -> None:
    ours, theirs = server.customer("ours"), server.customer("theirs")
    id_ = done(theirs)
    never = "0" * 26
    calls = [("GET", ""), ("GET", "/text"), ("GET", "/file"), ("GET", "/why")]
    calls += [("POST", "/cancel"), ("POST", "/retry"), ("DELETE", "")]
    for method, path in calls:
        foreign = ours.request(method, f"/v1/documents/{id_}{path}")
        unknown = ours.request(method, f"/v1/documents/{never}{path}")
        problem(foreign, "unknown-document", 404)
        assert foreign.text.replace(id_, never) == unknown.text
    foreign, unknown = (
        ours.get("/v1/documents", params={"parent": parent}) for parent in (id_, never)
    )
    problem(foreign, "unknown-document", 404)
    assert foreign.text.replace(id_, never) == unknown.text
    problem(ours.get("/v1/documents", params={"customer": "theirs"}), "forbidden", 403)
    assert server.operator.get(f"/v1/documents/{id_}").status_code == 200


def test_an_etag_saves_a_body_and_waits_for_a_change(server: Served) -> None:
    client = server.customer("tags")
    path = f"/v1/documents/{done(client)}"
    tag = client.get(path).headers["etag"]
    assert client.get(path, headers={"If-None-Match": tag}).status_code == 304
    server.operator.post("/v1/customers/tags/pause")
    path = f"/v1/documents/{upload(client, b'waits').json()['id']}"
    tag = client.get(path).headers["etag"]
    same = client.get(path, params={"wait": 0.05}, headers={"If-None-Match": tag})
    assert same.status_code == 304
    server.operator.post("/v1/customers/tags/resume")
    changed = client.get(path, params={"wait": 60}, headers={"If-None-Match": tag})
    assert changed.status_code == 200


def test_an_etag_saves_a_text_of_the_same_type(server: Served) -> None:
    client = server.customer("tags")
    path = f"/v1/documents/{done(client)}/text"
    tags = {}
    for accept in ("text/plain", "text/markdown", "application/json"):
        tags[accept] = client.get(path, headers={"Accept": accept}).headers["etag"]
    assert len(set(tags.values())) == 3
    for accept, tag in tags.items():
        for known in (tag, f'"another", W/{tag}', "*"):
            same = client.get(path, headers={"Accept": accept, "If-None-Match": known})
            assert (same.status_code, same.content) == (304, b"")
            assert (same.headers["etag"], same.headers["vary"]) == (tag, "Accept")
    other = {"Accept": "text/plain", "If-None-Match": tags["text/markdown"]}
    assert client.get(path, headers=other).content == ARTICLE


@pytest.mark.parametrize("times", [1, SHORT_BYTES], ids=["short", "long"])
def test_the_file_comes_back_as_an_attachment(server: Served, times: int) -> None:
    client, content = server.customer(f"files-{times}"), ARTICLE * times
    path = f"/v1/documents/{upload(client, content).json()['id']}/file"
    whole = client.get(path)
    assert whole.content == content
    assert whole.headers["content-length"] == str(len(content))
    assert whole.headers["content-type"] == "application/octet-stream"
    assert whole.headers["content-disposition"] == 'attachment; filename="0.txt"'
    assert whole.headers["x-content-type-options"] == "nosniff"
    assert "last-modified" in whole.headers
    tag = whole.headers["etag"]
    assert tag == f'"{hashlib.sha256(content).hexdigest()}"'
    assert client.get(path, headers={"If-None-Match": tag}).status_code == 304


def test_a_long_file_comes_back_in_ranges(server: Served) -> None:
    client, content = server.customer("ranges"), ARTICLE * SHORT_BYTES
    path = f"/v1/documents/{upload(client, content).json()['id']}/file"
    part = client.get(path, headers={"Range": "bytes=3-9"})
    assert (part.status_code, part.content) == (206, content[3:10])
    assert part.headers["content-range"] == f"bytes 3-9/{len(content)}"
    end = client.get(path, headers={"Range": "bytes=-5"})
    assert (end.status_code, end.content) == (206, content[-5:])
    outside = client.get(path, headers={"Range": f"bytes={len(content)}-"})
    problem(outside, "range-not-satisfiable", 416)
    assert outside.headers["content-range"] == f"bytes */{len(content)}"
    problem(client.get(path, headers={"Range": "lines=1-2"}), "invalid-request", 400)
    stale = client.get(path, headers={"Range": "bytes=3-9", "If-Range": '"another"'})
    assert (stale.status_code, stale.content) == (200, content)


def test_a_short_file_comes_back_whole_whatever_range_is_asked_for(server: Served) -> None:
    client = server.customer("short-ranges")
    path = f"/v1/documents/{upload(client, b'short').json()['id']}/file"
    answer = client.get(path, headers={"Range": "bytes=3-4"})
    assert (answer.status_code, answer.content) == (200, b"short")


def test_why_tells_a_customer_no_other_name(server: Served) -> None:
    first, second = server.customer("first-of-two"), server.customer("second-of-two")
    server.operator.post("/v1/customers/second-of-two/pause")
    id_ = upload(second, b"x", b"y").json()["documents"][1]["id"]
    upload(first, *[b"z"] * 3)
    explanation = second.get(f"/v1/documents/{id_}/why").json()
    assert explanation["position"] >= 2
    assert "first-of-two" not in str(explanation)
    assert "most" not in explanation["ahead"]
    assert all(reason["words"] for reason in explanation["reasons"])
    assert "most" in server.operator.get(f"/v1/documents/{id_}/why").json()["ahead"]
    problem(second.get(f"/v1/documents/{id_}/text"), "not-ready", 409)


def test_deletions_at_the_same_time_are_all_answered_alike(server: Served) -> None:
    client = server.customer("gone-at-once")
    ids = [document["id"] for document in upload(client, *[b"x"] * 20).json()["documents"]]
    with ThreadPoolExecutor(4) as pool:
        answers = pool.map(lambda id_: client.delete(f"/v1/documents/{id_}"), sorted(ids * 4))
    assert {answer.status_code for answer in answers} == {204}


def test_an_upload_whose_key_is_revoked_while_it_comes_is_refused(server: Served) -> None:
    key = server.key("revoked-in-the-middle")
    before = len(files_in(server.data))
    body = form("", LONG)["content"]
    head = (
        f"POST /v1/documents HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n"
        "Content-Type: multipart/form-data; boundary=X\r\nExpect: 100-continue\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.port), PATIENT) as connection:
        connection.sendall(head.encode())
        assert connection.recv(1000).startswith(b"HTTP/1.1 100")  # the key was checked
        server.operator.delete(f"/v1/keys/{id_of(key)}").raise_for_status()
        connection.sendall(body)
        raw_problem(b"".join(iter(lambda: connection.recv(65_536), b"")), "unauthorised", 401)
    assert len(files_in(server.data)) == before
    listing = server.operator.get("/v1/documents", params={"customer": "revoked-in-the-middle"})
    assert listing.json()["documents"] == []


@pytest.mark.parametrize("accept", ["text/plain", "text/markdown", "application/json"])
def test_a_long_text_comes_whole(server: Served, accept: str) -> None:
    client = server.customer("long-winded")
    text = "\n".join(f"Line {number} of a long text, with ümläuts." for number in range(20_000))
    path = f"/v1/documents/{done(client, text.encode())}/text"
    answer = client.get(path, headers={"Accept": accept})
    content = answer.json()["text"] if accept == "application/json" else answer.text
    assert content.split() == text.split()
    assert int(answer.headers["content-length"]) == len(answer.content)
    head = client.head(path, headers={"Accept": accept})
    assert (head.content, head.headers["content-length"]) == (b"", str(len(answer.content)))


def test_a_list_may_come_in_several_lines(server: Served) -> None:
    client = server.customer("in-lines")
    path = f"/v1/documents/{done(client)}"
    tag = client.get(path).headers["etag"]
    lines = [("If-None-Match", '"another"'), ("If-None-Match", tag)]
    assert client.get(path, headers=lines).status_code == 304
    lines = [("Accept", "image/png"), ("Accept", "text/markdown")]
    assert client.get(path + "/text", headers=lines).headers["content-type"].startswith("text/mark")
    lines = [("Accept-Language", "xx"), ("Accept-Language", "de")]
    assert client.get(path + "/why", headers=lines).headers["content-language"] == "de"
    assert "Dokument" in client.get("/v1/documents/never", headers=lines).json()["detail"]


def test_cancel_retry_and_delete_may_be_repeated(server: Served) -> None:
    client = server.customer("decides")
    server.operator.post("/v1/customers/decides/pause")
    id_ = upload(client, LONG).json()["id"]
    path = f"/v1/documents/{id_}"
    for _ in range(2):
        assert client.post(path + "/cancel").json()["state"] == "cancelled"
    for _ in range(2):
        assert client.post(path + "/retry").json()["state"] == "waiting"
    for _ in range(2):
        assert client.delete(path).status_code == 204
    problem(client.get(path), "unknown-document", 404)
    assert not [path for path in files_in(server.data) if path.name == id_]
    ended = done(server.customer("ended"))
    problem(server.operator.post(f"/v1/documents/{ended}/cancel"), "wrong-state", 409)
    with Fairlead(server.data) as fairlead:
        kinds = [event.kind.value for event in fairlead.store.events(customer="decides")]
    assert kinds[-2:] == ["cancelled", "deleted"]


@pytest.mark.parametrize("key", [None, "fl_000000000000_" + "x" * 43, "nonsense", "fl_" + "é" * 9])
def test_without_a_valid_key_nobody_comes_in(server: Served, key: str | None) -> None:
    headers = {} if key is None else {b"Authorization": f"Bearer {key}".encode()}
    answer = httpx.get(server.url + "/v1/documents", headers=headers, trust_env=False)
    problem(answer, "unauthorised", 401)
    assert answer.headers["www-authenticate"].startswith("Bearer")


def test_without_a_key_nothing_else_is_said_to_be_wrong(server: Served) -> None:
    nobody = server.client(None)
    calls: list[tuple[str, str, dict[str, Any]]] = [
        ("GET", "documents", {"params": {"limit": -1}}),
        ("POST", "customers", {"json": {"nonsense": 1}}),
        ("POST", "customers", {"content": b"{", "headers": {"Content-Type": "application/json"}}),
        ("POST", "customers", {"content": b"x", "headers": {"Content-Type": "text/plain"}}),
        ("PATCH", "webhooks/x", {"json": []}),
    ]
    for method, path, arguments in calls:
        problem(nobody.request(method, f"/v1/{path}", **arguments), "unauthorised", 401)
    problem(nobody.get("/v1/nothing"), "unauthorised", 401)
    problem(nobody.put("/v1/documents"), "unauthorised", 401)
    problem(nobody.get("/nothing"), "not-found", 404)


def test_keys_in_addresses_are_refused(server: Served) -> None:
    key = server.key("leaky")
    hidden = key.replace("l", "%6C", 1)
    for query in (f"?key={key}", f"?x={key}", f"?access_token={key}", f"?x={hidden}"):
        answer = httpx.get(server.url + "/v1/documents" + query, trust_env=False)
        problem(answer, "key-in-query", 400)
        assert key not in answer.text
    assert key not in "".join(server.log)


def test_a_key_in_the_place_of_an_id_is_not_repeated(server: Served) -> None:
    key = server.key("slips")
    calls = [("DELETE", f"keys/{key}"), ("DELETE", f"customers/slips/keys/{key}")]
    calls += [("GET", f"{part}/{key}") for part in ("documents", "customers", "webhooks")]
    for method, path in calls:
        answer = server.operator.request(method, f"/v1/{path}")
        assert answer.status_code == 404
        assert key[:16] in answer.text
        assert key[16:] not in answer.text


def test_an_operator_names_the_customer(server: Served) -> None:
    problem(upload(server.operator, b"x"), "invalid-request", 400)
    document = upload(server.operator, b"x", data={"customer": "acme"}).json()
    assert document["customer"] == "acme"


@pytest.mark.parametrize(
    ("accepted", "language", "word"),
    [
        ("de-AT,de;q=0.9,en;q=0.5", "de", "Priorität"),
        ("pl", "pl", "priorytet"),
        ("es", "es", "prioridad"),
        ("pt-BR", "pt", "prioridade"),
        ("tlh, xx;q=nonsense", "en", "priority"),
    ],
)
def test_why_speaks_the_askers_language(
    server: Served, accepted: str, language: str, word: str
) -> None:
    acme = server.customer(f"speaks {language}")
    id_ = upload(acme, b"a letter").json()["id"]
    answer = acme.get(f"/v1/documents/{id_}/why", headers={"Accept-Language": accepted})
    assert answer.headers["content-language"] == language
    assert word in answer.json()["reasons"][0]["words"]
    assert answer.json()["reasons"][0]["code"] == "count-not-below"
    assert "forecast" in answer.json()


def test_markdown_comes_where_it_is_accepted(server: Served) -> None:
    acme = server.customer("layout")
    page = b"<html><body><h1>Offer</h1><p>Tea and rice</p></body></html>"
    id_ = upload(acme, page).json()["id"]
    acme.get(f"/v1/documents/{id_}?wait=30")
    read = {
        wanted: acme.get(f"/v1/documents/{id_}/text", headers={"Accept": wanted}).text
        for wanted in ("text/plain", "text/markdown")
    }
    assert "# Offer" in read["text/markdown"]
    assert "#" not in read["text/plain"]
