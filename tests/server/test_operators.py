"""Operators, keys, sessions and limits over HTTP."""

from __future__ import annotations

import io
import stat
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import httpx
import pytest
from apikit import PATIENT, Served, problem, served, upload
from click.testing import CliRunner

from fairlead import Fairlead
from fairlead.cli import main
from fairlead.config.data_folder import DataFolder
from fairlead.config.settings import Settings
from fairlead.server.sessions import MOST_OF_A_KEY, MOST_SESSIONS, Sessions

PATCH = {
    "weight": 2.5,
    "account": "group",
    "processing_cap": 3,
    "pending_cap": 50,
    "reset_interval": 60.0,
    "thresholds": [-1, -3],
}


def test_customers_are_made_changed_paused_and_reset(server: Served) -> None:
    operator = server.operator
    created = operator.post("/v1/customers", json={"name": "a b-ü", "weight": 2})
    assert created.status_code == 201
    assert created.json()["weight"] == 2
    path = created.headers["location"]
    assert operator.get(path).json()["name"] == "a b-ü"
    problem(operator.post("/v1/customers", json={"name": "a b-ü"}), "customer-exists", 409)
    for bad in ({"thresholds": [1, 2]}, {"reset_interval": -5}, {"account": " x "}):
        refused = operator.post("/v1/customers", json={"name": "not yet", **bad})
        problem(refused, "invalid-request", 400)
        problem(operator.get("/v1/customers/not%20yet"), "unknown-customer", 404)
    changed = operator.patch(path, json=PATCH).json()
    assert {name: changed[name] for name in PATCH} == PATCH
    uncapped = operator.patch(path, json={"pending_cap": None}).json()
    assert (uncapped["pending_cap"], uncapped["weight"]) == (None, 2.5)
    assert operator.post(path + "/pause").json()["paused"]
    assert not operator.post(path + "/resume").json()["paused"]
    assert operator.post(path + "/reset").json()["count"] is None
    assert "a b-ü" in [
        customer["name"] for customer in operator.get("/v1/customers").json()["customers"]
    ]
    for wrong in ({"weight": -1}, {"colour": "red"}, {"pending_cap": 1.5}, {"thresholds": [1, 2]}):
        problem(operator.patch(path, json=wrong), "invalid-request", 400)
    problem(operator.get("/v1/customers/nobody"), "unknown-customer", 404)


def test_a_live_queue_is_switched_and_the_answer_says_what_changed(tmp_path: Path) -> None:
    with served(tmp_path / "data", "--workers", "0") as server:
        operator = server.operator
        upload(server.customer("acme"), *[b"text"] * 5)
        assert operator.get("/v1/policy").json() == {"policy": "classic"}
        done = operator.put("/v1/policy", json={"policy": "fair"}).json()
        assert (done["before"], done["after"]) == ("classic", "fair")
        assert (done["documents"], done["customers"]) == (5, 1)
        assert set(done) == {"before", "after", "documents", "customers"}
        assert operator.get("/v1/policy").json() == {"policy": "fair"}
        assert operator.get("/v1/customers").json()["fairness"]["policy"] == "fair"
        again = operator.put("/v1/policy", json={"policy": "fair"}).json()
        assert again == {
            "before": "fair", "after": "fair", "documents": 0, "customers": 0,
        }  # fmt: skip
        back = operator.put("/v1/policy", json={"policy": "classic"}).json()
        assert (back["before"], back["after"]) == ("fair", "classic")
        refused: list[Any] = [{"policy": "lottery"}, {}, {"policy": "fair", "now": True}, []]
        for wrong in refused:
            problem(operator.put("/v1/policy", json=wrong), "invalid-request", 400)


def at_once(server: Served, method: str, path: str, bodies: list[Any]) -> list[httpx.Response]:
    """The responses to requests of operators that are sent at the same time."""
    key = (server.data / "operator.key").read_text().strip()
    clients, barrier = [server.client(key) for _ in bodies], Barrier(len(bodies))

    def send(client: httpx.Client, body: Any) -> httpx.Response:
        client.get("/v1/me")  # so that the connection is open
        barrier.wait()
        return client.request(method, path, json=body)

    with ThreadPoolExecutor(len(bodies)) as pool:
        return list(pool.map(send, clients, bodies))


def test_changes_of_one_customer_at_once_lose_nothing(server: Served) -> None:
    path = "/v1/customers/changed"
    server.operator.post("/v1/customers", json={"name": "changed"})
    for number in range(1, 6):
        changes: list[dict[str, Any]] = [
            {"weight": float(number)},
            {"pending_cap": number},
            {"bytes_a_day": number},
            {"thresholds": [-number]},
        ]
        answers = at_once(server, "PATCH", path, changes)
        assert [answer.status_code for answer in answers] == [200] * len(changes)
        customer = server.operator.get(path).json()
        assert [{name: customer[name] for name in change} for change in changes] == changes


def test_of_those_who_make_one_customer_at_once_one_does(server: Served) -> None:
    for name in ("made-1", "made-2", "made-3", "made-4", "made-5"):
        bodies = [{"name": name, "pending_cap": cap} for cap in range(1, 7)]
        answers = at_once(server, "POST", "/v1/customers", bodies)
        (created,) = [answer for answer in answers if answer.status_code == 201]
        for answer in answers:
            if answer is not created:
                problem(answer, "customer-exists", 409)
        pending_cap = server.operator.get(f"/v1/customers/{name}").json()["pending_cap"]
        assert (
            pending_cap
            == created.json()["pending_cap"]
            == bodies[answers.index(created)]["pending_cap"]
        )
        entries = server.operator.get("/v1/audit", params={"limit": 3}).json()["entries"]
        assert [entry["customer"] for entry in entries].count(name) == 2


def test_an_interval_that_nobody_lives_to_see_is_refused(server: Served) -> None:
    endless = {"name": "endless", "reset_interval": 1e300}
    refused = problem(server.operator.post("/v1/customers", json=endless), "invalid-request", 400)
    assert "at `$.reset_interval`" in refused["detail"]
    problem(server.operator.get("/v1/customers/endless"), "unknown-customer", 404)


@pytest.mark.parametrize("name", ["reset", "pause", "100%", "a%2Fkeys", "%25", "a b"])
def test_a_name_is_never_taken_for_an_address(server: Served, name: str) -> None:
    operator = server.operator
    created = operator.post("/v1/customers", json={"name": name})
    assert created.status_code == 201
    path = created.headers["location"]
    assert operator.get(path).json()["name"] == name
    assert operator.patch(path, json={"weight": 3}).json()["weight"] == 3
    assert operator.post(path + "/pause").json()["paused"]
    key = operator.post(path + "/keys").json()
    assert [listed["id"] for listed in operator.get(path + "/keys").json()["keys"]] == [key["id"]]
    assert operator.delete(f"{path}/keys/{key['id']}").status_code == 204


@pytest.mark.parametrize("name", ["a/keys", "/"])
def test_a_name_has_no_slash(server: Served, name: str) -> None:
    for body in ({"name": name}, {"name": "acme", "account": name}):
        answer = server.operator.post("/v1/customers", json=body)
        assert "no slash" in problem(answer, "invalid-request", 400)["detail"]
    refused = server.operator.post("/v1/keys", json={"customer": name})
    assert "no slash" in problem(refused, "invalid-request", 400)["detail"]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        *[
            (method, f"/v1/customers/acme/{decision}", "POST")
            for decision in ("pause", "resume", "reset")
            for method in ("GET", "HEAD", "PATCH", "DELETE")
        ],
        ("PATCH", "/v1/customers/acme/keys", "GET, HEAD, POST"),
        ("DELETE", "/v1/customers/acme/keys", "GET, HEAD, POST"),
        ("GET", "/v1/customers/acme/keys/x", "DELETE"),
        ("POST", "/v1/customers/acme", "DELETE, GET, HEAD, PATCH"),
        ("GET", "/v1/documents/x/cancel", "POST"),
        ("PUT", "/v1/documents/x/retry", "POST"),
        ("POST", "/v1/documents/x", "DELETE, GET, HEAD, PATCH"),
        ("GET", "/v1/webhooks/x/test", "POST"),
        ("POST", "/v1/policy", "GET, HEAD, PUT"),
        ("GET", "/v1/webhooks/deliveries/x/resend", "POST"),
        ("PUT", "/customer/set", "GET, HEAD, POST"),
    ],
)
def test_an_address_takes_its_own_methods_and_no_other_address_takes_over(
    server: Served, method: str, path: str, allowed: str
) -> None:
    server.operator.post("/v1/customers", json={"name": "acme"})
    answer = server.operator.request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
    if method != "HEAD":
        problem(answer, "method-not-allowed", 405)


def test_a_refused_method_is_counted_for_its_address(server: Served) -> None:
    server.operator.get("/v1/customers/acme/reset")
    counted = server.operator.get("/metrics").text
    assert 'method="GET",route="/v1/customers/{name}/reset",status="405"' in counted


def test_every_decision_is_in_the_audit_with_who_and_when(server: Served) -> None:
    operator = server.operator
    operator.post("/v1/customers", json={"name": "audited"})
    operator.post("/v1/customers/audited/pause")
    entries = operator.get("/v1/audit", params={"limit": 2}).json()
    assert [entry["kind"] for entry in entries["entries"]] == ["customer-paused", "customer-added"]
    own = (server.data / "operator.key").read_text().split("_")[1]
    assert {entry["actor"] for entry in entries["entries"]} == {own}
    body = {"customer": "audited", "url": "https://a.test/"}
    webhook_id = operator.post("/v1/webhooks", json=body).json()["id"]
    operator.patch(f"/v1/webhooks/{webhook_id}", json={"enabled": False})
    operator.delete(f"/v1/webhooks/{webhook_id}")
    audited = operator.get("/v1/audit", params={"limit": 3}).json()["entries"]
    assert [entry["kind"] for entry in audited] == [
        "webhook-removed",
        "webhook-set",
        "webhook-added",
    ]
    assert {entry["actor"] for entry in audited} == {own}
    following = operator.get("/v1/audit", params={"limit": 2, "cursor": entries["next"]}).json()
    assert following["entries"][0]["seq"] < entries["entries"][-1]["seq"]


def test_keys_are_made_listed_and_revoked_at_once(server: Served) -> None:
    operator = server.operator
    operator.post("/v1/customers", json={"name": "keys"})
    key = operator.post("/v1/customers/keys/keys").json()
    client = server.client(key["key"])
    assert client.get("/v1/documents").status_code == 200
    listed = operator.get("/v1/customers/keys/keys").json()["keys"]
    assert [item["id"] for item in listed] == [key["id"]]
    assert key["key"] not in str(listed)
    for _ in range(2):
        assert operator.delete(f"/v1/customers/keys/keys/{key['id']}").status_code == 204
        problem(client.get("/v1/documents"), "unauthorised", 401)
    problem(operator.delete("/v1/customers/keys/keys/none"), "unknown-key", 404)
    problem(operator.post("/v1/customers/nobody/keys"), "unknown-customer", 404)


def test_the_command_line_makes_and_revokes_keys_of_a_running_server(server: Served) -> None:
    def run(*words: str) -> str:
        result = CliRunner().invoke(main, ["keys", *words, "--data", str(server.data)])
        assert result.exit_code == 0, result.output
        return str(result.stdout)

    client = server.client(run("add", "by-hand").strip())
    assert client.get("/v1/documents").status_code == 200
    id_ = client.headers["authorization"].split("_")[1]
    assert id_ in run("list", "by-hand")
    operators = server.client(run("add", "--operator").strip())
    assert operators.get("/v1/customers").status_code == 200
    run("revoke", id_)
    while client.get("/v1/documents").status_code == 200:
        pass  # until the event feed has the event; the test's time limit bounds this
    problem(client.get("/v1/documents"), "unauthorised", 401)


def test_customers_are_no_operators(server: Served) -> None:
    client = server.customer("curious")
    for path in (
        "/v1/customers",
        "/v1/customers/curious",
        "/v1/audit",
        "/v1/policy",
        "/v1/pipelines",
    ):
        problem(client.get(path), "forbidden", 403)
    problem(client.put("/v1/policy", json={"policy": "fair"}), "forbidden", 403)
    problem(client.post("/v1/customers/curious/pause"), "forbidden", 403)


def test_the_login_link_opens_a_session_that_scripts_cannot_read(server: Served) -> None:
    with httpx.Client(base_url=server.url, timeout=PATIENT, trust_env=False) as browser:
        answer = browser.get(server.login)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert browser.get("/v1/customers").status_code == 200
        headers = {"Origin": "https://elsewhere.example"}
        answer = browser.post("/v1/customers", json={"name": "forged"}, headers=headers)
        problem(answer, "forbidden", 403)
        problem(browser.get("/login?token=wrong"), "unauthorised", 401)


def test_the_login_link_ends_with_the_key_that_it_stands_for(tmp_path: Path) -> None:
    with served(tmp_path / "data", "--workers", "0") as server:
        other = server.operator.post("/v1/keys", json={"operator": True}).json()
        keys = server.operator.get("/v1/keys").json()["keys"]
        (own,) = [key["id"] for key in keys if key["id"] != other["id"]]
        guest, operator = server.client(None), server.client(other["key"])
        assert guest.get(server.login).status_code == 303
        spare = operator.post("/v1/keys", json={"operator": True}).json()
        assert operator.delete(f"/v1/keys/{spare['id']}").status_code == 200
        assert guest.get(server.login).status_code == 303
        link = server.login
        assert operator.delete(f"/v1/keys/{own}").status_code == 200
        problem(guest.get("/v1/customers"), "unauthorised", 401)
        problem(guest.get(link), "unauthorised", 401)
        assert len(operator.get("/v1/keys").json()["keys"]) == 3


def test_a_login_link_works_once_and_is_in_no_log(server: Served) -> None:
    """Regression: the login link is reusable and printed to the log."""
    link = CliRunner().invoke(main, ["login", "--data", str(server.data)]).stdout.strip()
    assert link.startswith(f"{server.url}/login?token=")
    assert server.client(None).get(link).status_code == 303
    problem(server.client(None).get(link), "unauthorised", 401)
    assert "token=" not in "".join(server.log)
    problem(server.customer("curious").post("/v1/login-links"), "forbidden", 403)


def test_the_session_cookie_is_secure_behind_tls(server: Served) -> None:
    """Regression: the cookie has no `Secure` behind TLS."""
    plain = server.client(None).get(server.login).headers["set-cookie"]
    behind = {"X-Forwarded-Proto": "https"}
    secure = server.client(None).get(server.login, headers=behind).headers["set-cookie"]
    assert ("Secure" in plain, "Secure" in secure) == (False, True)


def test_sessions_outlive_a_restart(tmp_path: Path) -> None:
    """Regression: sessions end with the server."""
    with served(tmp_path / "data", "--workers", "0") as server:
        guest = server.client(None)
        assert guest.get(server.login).status_code == 303
        cookies = dict(guest.cookies)
        server.stop()
    with served(tmp_path / "data", "--workers", "0") as server:
        guest = server.client(None)
        guest.cookies.update(cookies)
        assert guest.get("/v1/customers").status_code == 200
        saved = server.data / "sessions.json"
        assert stat.S_IMODE(saved.stat().st_mode) == 0o600
        assert cookies["fairlead_session"] not in saved.read_text()


def test_sessions_are_bounded(tmp_path: Path) -> None:
    """Regression: sessions are unbounded."""
    sessions = Sessions(DataFolder(tmp_path))
    for number in range(MOST_OF_A_KEY + 1):
        sessions.add(f"own-{number}", "key")
    assert sessions.holder("own-0") is None
    assert sessions.holder("own-1") == "key"
    for number in range(MOST_SESSIONS):
        sessions.add(f"other-{number}", f"key-{number}")
    assert sessions.holder(f"own-{MOST_OF_A_KEY}") is None
    assert Sessions(DataFolder(tmp_path)).holder("other-0") == "key-0"


def test_customers_have_a_rate_limit_by_default() -> None:
    """Regression: no default request limit."""
    assert (Settings().requests_a_second, Settings().requests_burst) == (100, 500)


def test_the_operator_key_is_for_its_owner_only(server: Served) -> None:
    mode = (server.data / "operator.key").stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


def test_health_metrics_and_documentation_need_no_key_and_no_internet(server: Served) -> None:
    with server.client(None) as anyone:
        assert anyone.get("/livez").json() == {"status": "ok"}
        assert anyone.get("/readyz").json() == {"status": "ok", "problems": []}
        metrics = anyone.get("/metrics").text
        assert 'fairlead_http_requests_total{method="GET",route="/livez",status="200"}' in metrics
        assert 'fairlead_http_seconds_bucket{le="+Inf",route="/livez"}' in metrics
        assert "fairlead_commits_total" in metrics
        page = anyone.get("/docs").text
        assert "https://" not in page.replace("https://fastapi.tiangolo.com", "")
        assert anyone.get("/static-offline-docs/swagger-ui-bundle.js").status_code == 200


@pytest.mark.parametrize("limit", ["requests_a_second", "bytes_a_day", "pending"])
def test_a_limit_is_named_and_harms_nobody_else(
    limit: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = tmp_path_factory.mktemp("limited") / "data"
    settings: dict[str, dict[str, Any]] = {
        "requests_a_second": {"requests_a_second": 0.01, "requests_burst": 3},
        "bytes_a_day": {"bytes_a_day": 25},
        "pending": {},
    }
    with served(data, "--workers", "0", **settings[limit]) as server:
        greedy, modest = server.customer("greedy"), server.customer("modest")
        if limit == "pending":
            server.operator.patch("/v1/customers/greedy", json={"pending_cap": 2})
        answers = [upload(greedy, b"x" * 10) for _ in range(4)]
        details = problem(answers[-1], "limit-reached", 429)
        assert details["limit"] == limit
        assert int(answers[-1].headers["retry-after"]) == details["retry_after"] > 0
        assert upload(modest, b"x" * 10).status_code == 202


def test_what_no_limit_will_ever_let_in_is_not_asked_for_again(server: Served) -> None:
    client = server.customer("too-much")
    for limit, setting in (("pending", "pending_cap"), ("bytes_a_day", "bytes_a_day")):
        server.operator.patch("/v1/customers/too-much", json={setting: 2})
        answer = upload(client, b"x", b"y", b"z")
        details = problem(answer, "limit-reached", 429)
        assert (details["limit"], details.get("retry_after")) == (limit, None)
        assert "at once" in details["detail"]
        assert "retry-after" not in answer.headers
        server.operator.patch("/v1/customers/too-much", json={setting: None})


def test_limits_of_one_customer_hold_from_the_next_request_on(server: Served) -> None:
    slow, quick = server.customer("slow"), server.customer("quick")
    limits = {"requests_a_second": 0.01, "requests_burst": 2, "bytes_a_day": 10}
    customer = server.operator.patch("/v1/customers/slow", json=limits).json()
    assert {name: customer[name] for name in limits} == limits
    problem(upload(slow, b"more than ten bytes"), "limit-reached", 429)
    assert upload(slow, b"ten bytes!").status_code == 202
    assert problem(slow.get("/v1/me"), "limit-reached", 429)["limit"] == "requests_a_second"
    assert [quick.get("/v1/me").status_code for _ in range(5)] == [200] * 5
    server.operator.patch("/v1/customers/slow", json=dict.fromkeys(limits))
    assert slow.get("/v1/me").status_code == 200
    problem(
        server.operator.patch("/v1/customers/slow", json={"requests_a_second": 0}),
        "invalid-request",
        400,
    )


def test_what_another_process_limits_is_known_with_its_event(server: Served) -> None:
    client = server.customer("elsewhere")
    assert client.get("/v1/me").status_code == 200
    with server.operator.stream("GET", "/v1/events") as events, Fairlead(server.data) as fairlead:
        lines = events.iter_lines()
        assert any(line.startswith("id: ") for line in lines)  # the stream has begun
        fairlead.customers.set("elsewhere", requests_a_second=0.001, requests_burst=1)
        news = '"kind":"customer-set","customer":"elsewhere"'
        assert any(news in line for line in lines)
    # The stream may have read the event from the store before the limits followed it.
    responses = (client.get("/v1/me") for _ in range(200))
    pauses = (int(response.headers.get("retry-after", 0)) for response in responses)
    assert any(pause > 60 for pause in pauses), "the default limit asks for a second at most"


def test_whoever_holds_a_key_learns_whose_it_is(server: Served) -> None:
    me = server.customer("asker").get("/v1/me").json()
    assert me["customer"] == "asker"
    assert me["limits"]["max_upload_files"] == 100
    assert server.operator.get("/v1/me").json()["customer"] is None


def test_an_operator_makes_lists_and_revokes_all_keys(server: Served) -> None:
    created = server.operator.post("/v1/keys", json={"customer": "brand-new"})
    assert created.status_code == 201
    assert created.headers["cache-control"] == "no-store"
    key = created.json()
    assert server.client(key["key"]).get("/v1/me").json()["customer"] == "brand-new"
    listed = server.operator.get("/v1/keys", params={"customer": "brand-new"}).json()["keys"]
    assert [item["id"] for item in listed] == [key["id"]]
    assert "key" not in listed[0]
    assert server.operator.delete(f"/v1/keys/{key['id']}").json()["revoked_at"]
    problem(server.client(key["key"]).get("/v1/me"), "unauthorised", 401)
    other = server.operator.post("/v1/keys", json={"operator": True}).json()
    assert server.client(other["key"]).get("/v1/keys?operator=true").status_code == 200
    for wrong in ({}, {"customer": "x", "operator": True}, {"customer": ""}):
        problem(server.operator.post("/v1/keys", json=wrong), "invalid-request", 400)
    problem(server.operator.delete("/v1/keys/nobody"), "unknown-key", 404)
    theirs = server.customer("no-operator")
    for ask in (theirs.get, theirs.post, theirs.delete):
        path = "/v1/keys/x" if ask == theirs.delete else "/v1/keys"
        answer = ask(path, json={"operator": True}) if ask == theirs.post else ask(path)
        problem(answer, "forbidden", 403)


def test_parts_are_listed_and_passwords_taken(server: Served) -> None:
    client, other = server.customer("parts"), server.customer("others")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("one.txt", "one")
        archive.writestr("two.txt", "two")
    sent = client.post(
        "/v1/documents", files={"file": ("a.zip", packed.getvalue())}, data={"password": "geheim"}
    ).json()
    client.get(f"/v1/documents/{sent['id']}", params={"wait": 60})
    parts = client.get("/v1/documents", params={"parent": sent["id"]}).json()["documents"]
    assert sorted(part["name"] for part in parts) == ["one.txt", "two.txt"]
    foreign = other.get("/v1/documents", params={"parent": sent["id"]})
    problem(foreign, "unknown-document", 404)
    client.get(f"/v1/documents/{parts[0]['id']}", params={"wait": 60})
    client.delete(f"/v1/documents/{sent['id']}")
    left = client.get("/v1/documents", params={"parent": sent["id"]}).json()["documents"]
    assert [(document["id"], document["parent"]) for document in left] == [
        (part["id"], sent["id"]) for part in parts
    ]
    foreign = other.get("/v1/documents", params={"parent": sent["id"]})
    problem(foreign, "unknown-document", 404)


def test_a_blocked_customer_is_told_the_reason(server: Served) -> None:
    barred = server.customer("barred")
    path = "/v1/customers/barred"
    shown = server.operator.post(f"{path}/block", json={"reason": "the invoice is open"})
    assert shown.json()["blocked"] == "the invoice is open"
    details = problem(upload(barred, b"a letter"), "customer-blocked", 403)
    assert "the invoice is open" in details["detail"]
    assert barred.get("/v1/documents").status_code == 200
    problem(barred.post(f"{path}/unblock"), "forbidden", 403)
    assert server.operator.post(f"{path}/unblock").json()["blocked"] is None
    assert upload(barred, b"a letter").status_code == 202


def test_only_an_operator_deletes_a_customer_and_its_key_ends_with_it(server: Served) -> None:
    leaving = server.customer("leaving")
    upload(leaving, b"a letter")
    problem(leaving.delete("/v1/customers/leaving"), "forbidden", 403)
    assert server.operator.delete("/v1/customers/leaving").status_code == 204
    problem(leaving.get("/v1/documents"), "unauthorised", 401)
    problem(server.operator.delete("/v1/customers/leaving"), "unknown-customer", 404)
