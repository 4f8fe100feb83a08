"""The page in a real browser, on a desktop and on a phone."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from siltstone.broker.http.control.token import read_address
from siltstone.broker.http.site.routes import FILES
from tests.support.appending import append
from tests.support.broker import SiltstoneProcess
from tests.support.browser import Browser, browsing, find_chromium
from tests.support.commits import commit
from tests.support.http_client import ask
from tests.support.ports import address_of
from tests.support.running import Running, running
from tests.support.traffic import Traffic

DESKTOP = (1280, 800)
PHONE = (390, 844)
VIEWS = (
    "overview",
    "topics",
    "topic/state",
    "records/state",
    "cleaner",
    "groups",
    "connections",
    "settings",
)
EVIL = '<img src=x onerror="window.broken=1"><script>window.broken=1</script>'


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Running]:
    """A broker with a topic that is compacted, and a client with an evil name."""
    async with running(tmp_path / "data") as started:
        settings = {"cleanup.policy": "compact", "segment.bytes": "1200"}
        await started.topics.create("state", 2, settings)
        await started.topics.create("orders", 1, {})
        caller = await started.call()
        caller.client_id = EVIL
        traffic = Traffic(caller, "state")
        for _ in range(4):
            assert await traffic.produce(b"x" * 900) == 0
        yield started


def shown(view: str) -> str:
    """Return the expression that is true when a view shows what the broker said."""
    return f"document.getElementById('main')?.dataset.view === '{view}'"


def port_of(broker: Running) -> int:
    """Return the port of the page."""
    address = read_address(broker.logs.directories[0].path)
    assert address is not None
    return address_of(address)[1]


async def test_files_come_with_strict_headers(broker: Running) -> None:
    """Nothing but our own files may run in the page, and nobody may frame it."""
    for path, (_, content_type) in FILES.items():
        answer = await ask(port_of(broker), path)

        assert answer.status == 200
        assert answer.headers["content-type"] == content_type
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert b"innerHTML" not in answer.body
        assert b"http://" not in answer.body.replace(b"http://www.w3.org/2000/svg", b"")
        assert b"https://" not in answer.body


@pytest.mark.slow
@pytest.mark.parametrize(("width", "height"), [DESKTOP, PHONE])
@pytest.mark.parametrize("is_dark", [False, True])
async def test_every_view_shows_and_fits(
    broker: Running, tmp_path: Path, width: int, height: int, *, is_dark: bool
) -> None:
    """No script fails, nothing is asked elsewhere, nothing is wider than the screen."""
    find_chromium()
    root = f"http://127.0.0.1:{port_of(broker)}/"

    def look() -> None:
        with browsing(tmp_path / "profile") as browser:
            browser.resize(width, height, is_dark=is_dark)
            for view in VIEWS:
                browser.open(f"{root}#{view}")
                browser.wait_for(shown(view), view)
                assert browser.evaluate("document.documentElement.scrollWidth") <= width, view
                assert browser.evaluate("window.broken === undefined")
                browser.shoot(tmp_path / f"{view.replace('/', '-')}.png")
            ground = browser.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (ground == "rgb(18, 23, 26)") == is_dark
            assert browser.troubles == []
            strangers = [url for url in browser.asked if not url.startswith((root, "about:"))]
            assert strangers == []

    await asyncio.to_thread(look)


@pytest.mark.slow
async def test_the_lag_of_a_group_is_seen_on_a_phone(broker: Running, tmp_path: Path) -> None:
    """It is what one looks for; the table is not wider than its card."""
    find_chromium()
    await commit(broker, "billing", 1)
    address = f"http://127.0.0.1:{port_of(broker)}/#group/billing"

    def look() -> None:
        with browsing(tmp_path / "profile") as browser:
            browser.resize(*PHONE)
            browser.open(address)
            browser.wait_for(shown("group/billing"), "the group")
            browser.wait_for("document.querySelector('.wide td') !== null", "its table")
            assert browser.evaluate(
                "[...document.querySelectorAll('.wide')]"
                ".every((each) => each.scrollWidth <= each.clientWidth)"
            )
            words = browser.evaluate("document.getElementById('main').innerText")
            assert "Lag" in words
            browser.open(f"http://127.0.0.1:{port_of(broker)}/#topics")
            browser.wait_for(shown("topics"), "the topics")
            assert browser.evaluate(
                "document.querySelectorAll('td.number').forEach((each) => {"
                "each.textContent = '99.9 KiB/s'; });"
                "[...document.querySelectorAll('.wide')]"
                ".every((each) => each.scrollWidth <= each.clientWidth)"
            ), "rates that are cut"

    await asyncio.to_thread(look)


@pytest.mark.slow
async def test_the_keyboard_goes_everywhere(broker: Running, tmp_path: Path) -> None:
    """Views by number, rows by j and Enter, the filter by a slash, back by Escape."""
    find_chromium()
    root = f"http://127.0.0.1:{port_of(broker)}/"

    def look() -> None:
        with browsing(tmp_path / "profile") as browser:
            browser.resize(*DESKTOP)
            browser.open(root)
            browser.wait_for(shown("overview"), "the overview")
            browser.press("2")
            browser.wait_for(shown("topics"), "the topics")
            browser.press("/")
            browser.press("s")
            browser.press("t")
            one = "document.querySelectorAll('main a.row').length === 1"
            browser.wait_for(one, "one topic that has st in its name")
            browser.press("Escape")
            browser.press("j")
            browser.press("Enter")
            browser.wait_for(shown("topic/state"), "the topic")
            strips = browser.evaluate(
                "[...document.querySelectorAll('.strip')].map((each) => each.ariaLabel)"
            )
            assert strips[0].count("dirty") == 3
            assert "active" in strips[0]
            browser.press("Escape")
            browser.wait_for(shown("topics"), "the topics again")
            browser.press("p")
            browser.wait_for("document.getElementById('state').innerText === 'paused'", "a pause")
            browser.press("?")
            browser.wait_for("document.getElementById('keys').open", "the list of keys")
            assert browser.troubles == []

    await asyncio.to_thread(look)


@pytest.mark.slow
async def test_records_are_looked_at(broker: Running, tmp_path: Path) -> None:
    """The last ones; from an offset; JSON with lines whose numbers stay as they are; hex."""
    find_chromium()
    log = broker.topics.topics["orders"].logs[0]
    assert log is not None
    append(log, [(b"a", b'{"id":12345678901234567890,"of":{"x":[1,2]},"no":[]}')])
    append(log, [(b"evil", EVIL.encode()), (b"\xff", None)])
    address = f"http://127.0.0.1:{port_of(broker)}/#records/orders"
    cells = "[...document.querySelectorAll('tbody tr')].map((each) => each.innerText)"

    def look() -> None:
        with browsing(tmp_path / "profile") as browser:
            browser.resize(*DESKTOP)
            browser.open(address)
            browser.wait_for(f"{cells}.length === 3", "the records")
            assert browser.evaluate("window.broken === undefined")
            rows = browser.evaluate(cells)
            assert EVIL in rows[1]
            assert "ff" in rows[2]
            assert "null" in rows[2]
            browser.evaluate(choose("shown as", "json"))
            lines = '{\n  "id": 12345678901234567890,\n  "of": {\n    "x": [\n      1,\n      2\n'
            browser.wait_for(f"{cells}[0]?.includes({json.dumps(lines)})", "lines of JSON")
            browser.evaluate(choose("shown as", "hex"))
            browser.wait_for(f"{cells}[0]?.includes('7b226964')", "hex")
            browser.evaluate(choose("which records", "offset"))
            browser.evaluate(choose("offset, time or key", "2"))
            browser.wait_for(f"{cells}.length === 1", "one record")
            assert browser.troubles == []
            browser.evaluate(choose("offset, time or key", "x"))
            refusal = "document.querySelector('.message.bad')?.innerText ?? ''"
            browser.wait_for(f"{refusal}.includes('write a number')", "a refusal")
            browser.evaluate(choose("offset, time or key", "1"))
            browser.wait_for(f"{cells}.length === 2", "two records")
            browser.press("Escape")
            browser.wait_for(shown("topic/orders"), "the topic")

    await asyncio.to_thread(look)


def choose(label: str, value: str) -> str:
    """Return the expression that gives a field a value."""
    return (
        f"(() => {{ const field = document.querySelector('[aria-label=\"{label}\"]'); "
        f"field.value = '{value}'; field.dispatchEvent(new Event('change')); }})()"
    )


@pytest.mark.slow
@pytest.mark.client
def test_a_broker_that_ends_is_seen(tmp_path: Path) -> None:
    """The content is old then, and the page says so."""
    find_chromium()
    broker = SiltstoneProcess(tmp_path)
    broker.start()
    with closing(broker), browsing(tmp_path / "profile") as browser:
        browser.open(f"http://{broker.http}/")
        browser.wait_for(shown("overview"), "the overview")
        assert broker.stop() == 0
        trouble = "document.getElementById('trouble')"
        browser.wait_for(f"!{trouble}.hidden", "the trouble")
        words = browser.evaluate(f"{trouble}.innerText")
        assert words.startswith("The broker does not answer. What stands here is as of ")
        assert browser.evaluate("document.getElementById('main').className") == "stale"
        browser.press("2")
        browser.wait_for("document.getElementById('main').className === ''", "another view")
        browser.wait_for("document.getElementById('main').innerText === ''", "that is empty")


@pytest.mark.slow
async def test_a_topic_that_goes_is_seen(broker: Running, tmp_path: Path) -> None:
    """Its view gives way to the sentence of the broker."""
    find_chromium()
    orders = broker.topics.topics["orders"]
    root = f"http://127.0.0.1:{port_of(broker)}/"
    loop = asyncio.get_running_loop()

    def look() -> None:
        with browsing(tmp_path / "profile") as browser:
            browser.open(f"{root}#topic/orders")
            browser.wait_for(shown("topic/orders"), "the topic")
            asyncio.run_coroutine_threadsafe(broker.topics.delete(orders), loop).result()
            words = "document.getElementById('main').innerText"
            browser.wait_for(f"{words}.includes('there is no topic')", "the refusal")
            assert "Segments" not in browser.evaluate(words)

    await asyncio.to_thread(look)


@pytest.mark.slow
async def test_a_new_drawing_leaves_the_reader_where_he_is(broker: Running, tmp_path: Path) -> None:
    """The focus and what is scrolled sideways stay, and so does text that is selected."""
    find_chromium()
    root = f"http://127.0.0.1:{port_of(broker)}/"

    def look() -> None:
        with browsing(tmp_path / "profile") as browser:
            browser.resize(*PHONE)
            browser.open(f"{root}#topic/state")
            browser.wait_for(shown("topic/state"), "the topic")
            browser.evaluate(
                "document.querySelector('summary').focus();"
                "document.querySelector('summary').parentElement.open = true;"
                "window.before = document.querySelector('summary')"
            )
            drawn = "document.querySelector('summary') !== window.before"
            browser.wait_for(drawn, "a new drawing")
            assert browser.evaluate("document.activeElement === document.querySelector('summary')")
            assert browser.evaluate("document.querySelector('details').open")
            browser.evaluate(
                "window.before = document.querySelector('h2');"
                "getSelection().selectAllChildren(window.before)"
            )
            state = "document.getElementById('state').innerText"
            browser.wait_for(f"{state}.includes('selected')", "a page that waits")
            assert browser.evaluate("document.querySelector('h2') === window.before")
            browser.evaluate("getSelection().removeAllRanges()")
            browser.wait_for("document.querySelector('h2') !== window.before", "the next drawing")
            assert browser.troubles == []

    await asyncio.to_thread(look)


@pytest.mark.slow
async def test_an_empty_broker_has_sentences(tmp_path: Path) -> None:
    """No list is empty without a word, and none speaks of a name that nobody typed."""
    find_chromium()

    def look(root: str) -> None:
        with browsing(tmp_path / "profile") as browser:
            for view, sentence in (
                ("overview", "There are no topics yet."),
                ("topics", "There are no topics yet."),
                ("groups", "There are no groups yet."),
                ("cleaner", "No pass yet."),
                ("connections", "Nobody is connected."),
            ):
                browser.open(f"{root}#{view}")
                browser.wait_for(shown(view), view)
                words = browser.evaluate("document.getElementById('main').innerText")
                assert sentence in words, view

    async with running(tmp_path / "data") as started:
        await asyncio.to_thread(look, f"http://127.0.0.1:{port_of(started)}/")


@pytest.mark.slow
async def test_a_disk_below_its_reserve_is_said_once(tmp_path: Path) -> None:
    """It is why the broker is not ready; it is full now, not after a time."""
    find_chromium()

    def look(root: str) -> None:
        with browsing(tmp_path / "profile") as browser:
            browser.open(root)
            browser.wait_for(shown("overview"), "the overview")
            words = browser.evaluate("document.getElementById('main').innerText")
            assert words.count("takes no produce requests now") == 1
            assert "now (down to the reserve)" in words

    async with running(tmp_path / "data", f"log.dirs.reserve.bytes={1 << 50}") as started:
        await asyncio.to_thread(look, f"http://127.0.0.1:{port_of(started)}/")


@pytest.mark.slow
async def test_names_of_users_are_text(broker: Running, tmp_path: Path) -> None:
    """A client id that is HTML is shown as it is, and does nothing."""
    find_chromium()
    root = f"http://127.0.0.1:{port_of(broker)}/"

    def look() -> None:
        with browsing(tmp_path / "profile") as browser:
            browser.open(f"{root}#connections")
            browser.wait_for(shown("connections"), "the connections")
            assert EVIL in browser.evaluate("document.getElementById('main').textContent")
            assert (
                browser.evaluate("document.querySelectorAll('main img, main script').length") == 0
            )
            assert browser.evaluate("window.broken === undefined")
            browser.open(f"{root}#topic/{'%3Cimg src=x onerror=window.broken=1%3E'}")
            refused = (
                "document.querySelector('.message.bad')?.textContent.includes('there is no topic')"
            )
            browser.wait_for(refused, "the refusal")
            assert browser.evaluate("window.broken === undefined")

    await asyncio.to_thread(look)


@pytest.mark.slow
@pytest.mark.parametrize(("width", "height"), [DESKTOP, PHONE])
async def test_names_that_mislead_are_seen_through(
    broker: Running, tmp_path: Path, width: int, height: int
) -> None:
    """One that turns the line around or breaks it is spelled out; a long one is not cut."""
    find_chromium()
    root = f"http://127.0.0.1:{port_of(broker)}/"
    for name in ("\u202enimda", "x" * 250):
        caller = await broker.call()
        caller.client_id = name
        assert await Traffic(caller, "orders").produce(b"record") == 0
    for group in ("ad\nmin", "\u202enimda"):
        await commit(broker, group, 1)

    def look() -> None:
        with browsing(tmp_path / "profile") as browser:
            browser.resize(width, height)
            for view, wanted in (
                ("connections", ["\\u{202e}nimda", "x" * 250]),
                ("groups", ["ad\\u{a}min", "\\u{202e}nimda"]),
            ):
                browser.open(f"{root}#{view}")
                browser.wait_for(shown(view), view)
                names = browser.evaluate(
                    "[...document.querySelectorAll('main bdi')].map((each) => each.innerText)"
                )
                assert set(wanted) <= set(names)
                assert browser.evaluate(
                    "[...document.querySelectorAll('.wide')]"
                    ".every((each) => each.scrollWidth <= each.clientWidth)"
                ), view
            browser.open(f"{root}#group/%E2%80%AEnimda")
            browser.wait_for("document.querySelector('h2 bdi') !== null", "the group")
            assert browser.evaluate("document.title") == "\\u{202e}nimda · Siltstone"

    await asyncio.to_thread(look)


@pytest.mark.slow
async def test_what_a_screen_reader_is_told(broker: Running, tmp_path: Path) -> None:
    """Rows are links, and an answer that changes nothing is not read out."""
    find_chromium()
    root = f"http://127.0.0.1:{port_of(broker)}/"

    def look() -> None:
        with browsing(tmp_path / "profile") as browser:
            browser.open(f"{root}#topics")
            browser.wait_for(shown("topics"), "the topics")
            nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
            seen = {
                (node["role"]["value"], node.get("name", {}).get("value", "").strip())
                for node in nodes
                if not node["ignored"]
            }
            assert {("link", "orders"), ("searchbox", "part of a topic's name")} <= seen
            browser.evaluate(
                "window.told = [];"
                "new MutationObserver((changes) => told.push(...changes)).observe("
                "document.querySelector('[role=status]'), {childList: true});"
                "window.before = document.getElementById('state').innerText"
            )
            later = "document.getElementById('state').innerText !== window.before"
            browser.wait_for(later, "another answer")
            assert browser.evaluate("told.length") == 0
            browser.press("p")
            browser.wait_for("told.length === 1", "the pause")
            assert browser.evaluate("document.querySelector('[role=status]').innerText") == "paused"

    await asyncio.to_thread(look)


@pytest.mark.slow
async def test_another_site_gets_nothing(broker: Running, tmp_path: Path) -> None:
    """Neither by fetch nor in a frame."""
    find_chromium()
    port = port_of(broker)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n<p>other</p>")
        await writer.drain()
        writer.close()

    def look(other: int) -> None:
        with browsing(tmp_path / "profile") as browser:
            browser.open(f"http://127.0.0.1:{other}/")
            browser.wait_for("document.body?.innerText === 'other'", "the other site")
            script = (
                f"fetch('http://127.0.0.1:{port}/api/overview', {{mode: 'no-cors'}})"
                ".then((answer) => answer.text().then((text) => `${answer.status} ${text}`))"
                ".catch((error) => 'refused')"
            )
            assert browser.evaluate(script) in {"refused", "0 "}
            assert browser.evaluate(
                "new Promise((done) => {"
                "const frame = document.createElement('iframe');"
                f"frame.src = 'http://127.0.0.1:{port}/';"
                "frame.onload = () => { try { done(frame.contentDocument === null ? 'hidden' : "
                "frame.contentDocument.body.innerText); } catch { done('hidden'); } };"
                "document.body.append(frame); })"
            ) in {"hidden", ""}

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        await asyncio.to_thread(look, server.sockets[0].getsockname()[1])


def test_a_browser_that_is_missing_is_said_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The skip names what to install."""
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(pytest.skip.Exception, match="chromium: not on the PATH"):
        Browser(tmp_path)
