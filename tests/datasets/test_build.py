"""From spools to a data set: what goes in, what never does, and what is counted."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest

from agentx.datasets import scratch
from agentx.datasets.build import build
from agentx.datasets.errors import DatasetError
from agentx.datasets.parquet.info import Dropped
from agentx.datasets.parquet.reader import open_dataset
from agentx.datasets.trace.block_runs import block_lists
from agentx.proxy_addons.errors import CaptureError
from tests.captured import exchange, fixture_exchanges, write_spool
from tests.datasets.talks import ask, built, call, one, result, said, user

FIRST = user("Please list the files of this project.")
LIST = said("I will look.", call("t1", command="ls"))
LISTED = result("t1", "README.md app.py")


def texts_of(folder: Path) -> set[str]:
    """Every string of a fixture that says something: of more than one word."""

    def strings(value: Any) -> set[str]:
        match value:
            case str():
                return {value.strip()} if len(value.split()) > 1 else set()
            case list():
                return set().union(*map(strings, value))
            case dict():
                return set().union(*map(strings, value.values()))
            case _:
                return set()

    return set().union(
        *(strings(orjson.loads(path.read_bytes())) for path in folder.glob("[0-9]*.json"))
    )


def everything_in(folder: Path) -> bytes:
    """Each file's bytes, and each Parquet table's cells and metadata as JSON."""
    found = []
    for path in sorted(folder.iterdir()):
        found.append(path.name.encode() + path.read_bytes())
        if path.suffix == ".parquet":
            table = pq.read_table(path)
            found.append(orjson.dumps(table.to_pylist()))
            found.append(repr(table.schema.metadata).encode())
    return b"\n".join(found)


@pytest.mark.parametrize("agent", ["claude-code", "opencode"])
def test_no_text_no_id_and_no_time_of_day_reaches_the_data_set(
    agent: str, fixtures_dir: Path, tmp_path: Path
) -> None:
    fixture = fixtures_dir / "capture" / agent
    built(tmp_path, fixture_exchanges(fixture))
    data = everything_in(tmp_path / "dataset")
    texts = texts_of(fixture)
    assert len(texts) > 50
    assert [text for text in texts if orjson.dumps(text)[1:-1] in data] == []
    for secret in (b"00000000-0000-4000", b"ses_0000", b"toolu_", b"Synthetic0", b"a00000000"):
        assert secret not in data
    assert b"1780000" not in data  # milliseconds since 1970, as the fixtures' clock has them


def test_nothing_but_the_key_and_the_map_stays_in_the_private_folder(tmp_path: Path) -> None:
    built(tmp_path, [ask([FIRST], LIST, at=0, session="real-id", agent="sub-id")])
    private = tmp_path / "dataset.private"
    assert sorted(path.name for path in private.iterdir()) == ["key", "sessions.jsonl"]
    (line,) = (private / "sessions.jsonl").read_bytes().splitlines()
    assert orjson.loads(line) == {
        "session_id": "s1",
        "session": "id:real-id",
        "agents": {"agent-1": "sub-id", "main": "main"},
    }


def test_what_makes_no_row_is_counted_by_reason(tmp_path: Path) -> None:
    stream = {"content-type": "text/event-stream", "content-encoding": "lzma"}
    spool = write_spool(
        tmp_path / "spool",
        [
            exchange(method="HEAD", path="/"),
            exchange(method="GET", path="/v1/models"),
            exchange(b"no JSON"),
            exchange({"messages": []}, answer=b"...", answer_headers=stream),
            ask([FIRST], LIST, at=0),
        ],
    )
    found = build([spool], tmp_path / "dataset")
    assert found.info.dropped == {
        "no_model_call": Dropped(2, "exchanges"),
        "unreadable_request": Dropped(1, "exchanges"),
        "answer_unknown_encoding": Dropped(1, "answers"),
    }
    assert found.exchanges == 5
    dataset = open_dataset(tmp_path / "dataset")
    assert dataset.info == found.info
    assert dataset.info.counts.requests == 2
    assert (dataset.info.tokenizer, dataset.info.block_size) == ("o200k_base", 16)


def test_a_torn_spool_gives_what_is_whole_and_says_so(tmp_path: Path) -> None:
    spool = write_spool(
        tmp_path / "spool", [ask([FIRST], LIST, at=0), ask([FIRST, LIST, LISTED], None, at=300)]
    )
    (segment,) = spool.glob("*.segment")
    segment.write_bytes(segment.read_bytes()[:-5])
    found = build([spool], tmp_path / "dataset")
    assert found.info.dropped == {"spool_cut_off": Dropped(1, "files")}
    assert found.info.counts.requests == 2


def test_several_spools_are_one_data_set_in_order_of_time(tmp_path: Path) -> None:
    exchanges = [
        ask([FIRST], LIST, at=0),
        ask([FIRST, LIST, LISTED], said("Two files are in it."), at=300),
        ask([FIRST], LIST, at=100, session="other"),
    ]
    spools = [write_spool(tmp_path / f"spool{i}", [e]) for i, e in enumerate(exchanges)]
    build(list(reversed(spools)), tmp_path / "dataset")
    sessions = sorted(open_dataset(tmp_path / "dataset").sessions(), key=lambda s: s.start_ms or 0)
    assert [s.start_ms for s in sessions] == [0, 100]
    assert [r.parent for r in sessions[0].requests] == [None, 0]
    # The same beginning has the same integers in both sessions.
    first, second = (next(iter(block_lists(s))).tolist() for s in sessions)
    assert first == second
    assert len(first) >= 1


def test_a_spool_given_twice_is_built_once_and_its_fuller_copy_counts(tmp_path: Path) -> None:
    exchanges = [
        exchange(method="HEAD", path="/"),
        ask([FIRST], LIST, at=0),
        ask([FIRST], LIST, at=0, session="other"),
        ask([FIRST, LIST, LISTED], said("Two files are in it."), at=300),
    ]
    spool = write_spool(tmp_path / "spool", exchanges)
    (tmp_path / "link").symlink_to(spool)
    copy = tmp_path / "copy"
    shutil.copytree(spool, copy)
    (segment,) = copy.glob("*.segment")
    # A copy from while the spool was written: the last answer and its end are not there yet.
    segment.write_bytes(segment.read_bytes()[:-200])
    assert build([copy], tmp_path / "copied").info.dropped["spool_cut_off"].count == 1
    cut_off = [r.status for s in open_dataset(tmp_path / "copied").sessions() for r in s.requests]
    assert sorted(cut_off) == ["ok", "ok", "partial"]
    once = build([spool], tmp_path / "once")
    for at, others in enumerate(([spool], [tmp_path / "link"], [copy])):
        for spools in ([spool, *others], [*others, spool]):
            out = tmp_path / f"twice-{at}-{len(list(tmp_path.iterdir()))}"
            found = build(spools, out)
            assert found.info.counts == once.info.counts
            assert found.info.dropped["duplicate_exchange"] == Dropped(4, "exchanges")
            assert found.info.dropped["no_model_call"] == Dropped(1, "exchanges")
            statuses = [r.status for s in open_dataset(out).sessions() for r in s.requests]
            assert statuses == ["ok"] * 3


def test_sessions_are_shuffled_and_numbered_anew(tmp_path: Path) -> None:
    asked = [ask([user(f"Task {i}")], LIST, at=1000.0 * i, session=f"x{i}") for i in range(30)]
    spool = write_spool(tmp_path / "spool", asked)
    orders = []
    for name in ("one", "two"):
        build([spool], tmp_path / name)
        sessions = list(open_dataset(tmp_path / name).sessions())
        assert [s.session_id for s in sessions] == [f"s{i + 1}" for i in range(30)]
        orders.append([s.start_ms for s in sessions])
    assert sorted(orders[0]) == sorted(orders[1]) == [1000 * i for i in range(30)]  # type: ignore[type-var]
    assert orders[0] != orders[1]


def test_what_breaks_a_prefix_is_in_its_column(tmp_path: Path) -> None:
    def billed(number: int) -> list[dict[str, Any]]:
        return [
            {"type": "text", "text": f"x-anthropic-billing-header: cch={number};"},
            {"type": "text", "text": "You are an agent."},
        ]

    spaced = user("Please list the files of this project. ")
    renamed = said("I will look.", call("t9", command="ls"))
    session = one(
        tmp_path,
        [
            ask([FIRST], LIST, at=0, system=billed(1)),
            ask([FIRST, LIST, LISTED], LIST, at=300, system=billed(2)),
            ask(
                [spaced, renamed, result("t9", "README.md app.py")], None, at=600, system=billed(2)
            ),
        ],
    )
    assert [r.prefix_breakers for r in session.requests] == [
        None,
        ("billing",),
        ("space", "call_id"),
    ]


def test_an_image_counts_as_opaque_tokens(tmp_path: Path) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "x", "data": "AAAA"}}
    message = {"role": "user", "content": [image, {"type": "text", "text": "what is it?"}]}
    session = one(tmp_path, [ask([message], LIST, at=0)])
    (request,) = session.requests
    assert request.opaque_tokens == 1600
    assert [s.tokens for s in session.segments if s.kind == "other"] == [1601]


def test_names_that_are_no_names_stay_out(tmp_path: Path) -> None:
    tool = {"name": "read my mail at a@example.test", "input_schema": {}}
    answer = said("Reading it.", call("t1", "tell Bob that all is well"))
    session = one(
        tmp_path,
        [ask([FIRST], answer, at=0, tools=(tool,), model="the model of Bob and Eve")],
    )
    assert [s.tool_name for s in session.segments] == [None] * len(session.segments)
    assert session.requests[0].tool_names == ()
    assert session.requests[0].model == "m"  # the server's name for it


def test_no_path_and_no_address_stands_in_the_data_set(tmp_path: Path) -> None:
    path, mail = "/home/alice.smith/bin/tool.sh", "alice.smith@corp.example"
    tools = tuple({"name": name, "input_schema": {}} for name in (path, mail, "Bash"))
    answer = said("Running.", *(call(f"t-{name}", name) for name in (path, mail, "Bash")))
    model = "/home/alice.smith/models/Secret-7B.gguf"
    session = one(tmp_path, [ask([FIRST], answer, at=0, tools=tools, model=model)])
    (request,) = session.requests
    assert (request.model, request.tool_names) == ("Secret-7B.gguf", ("Bash",))
    data = everything_in(tmp_path / "dataset")
    for text in (b"alice", b"/home", b"corp.example", str(tmp_path).encode()):
        assert text not in data


def test_a_context_without_tokens_is_a_row(tmp_path: Path) -> None:
    session = one(tmp_path, [ask([], None, at=0, tools=(), system="")])
    (request,) = session.requests
    assert (request.context_tokens, request.blocks) == (0, 0)


def test_small_caches_change_nothing(
    fixtures_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchanges = fixture_exchanges(fixtures_dir / "capture" / "claude-code")
    usual = built(tmp_path, exchanges)
    monkeypatch.setattr(scratch, "_KNOWN", 8)
    monkeypatch.setattr(scratch, "_HELD_TOKENS", 10)
    small = built(tmp_path / "small", exchanges)

    def shape(sessions: list[Any]) -> list[Any]:
        return [[(r.parent, r.keep_tokens, r.context_tokens) for r in s.requests] for s in sessions]

    assert shape(small) == shape(usual)


# Bad input


def test_there_must_be_a_spool_with_a_call_of_a_model(tmp_path: Path) -> None:
    out = tmp_path / "dataset"
    with pytest.raises(CaptureError, match="nowhere does not exist"):
        build([tmp_path / "nowhere"], out)
    spool = write_spool(tmp_path / "spool", [exchange(method="HEAD", path="/")])
    with pytest.raises(DatasetError, match="no call of a model among 1 exchanges"):
        build([spool], out)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["spool"]


def test_why_nothing_could_be_built_is_said(tmp_path: Path) -> None:
    out, spool = tmp_path / "dataset", tmp_path / "spool"
    write_spool(spool, [exchange(b""), exchange(b"no JSON"), exchange(method="HEAD", path="/")])
    with pytest.raises(
        DatasetError,
        match=r"among 3 exchanges \(1 calls of something else, "
        r"2 requests that could not be kept or read\); capture the traffic again",
    ):
        build([spool], out)
    (segment,) = spool.glob("*.segment")
    segment.write_bytes(segment.read_bytes()[:20])
    with pytest.raises(DatasetError, match=r"among 0 exchanges \(1 files of the spool cut off\)"):
        build([spool], out)


def test_what_is_in_the_way_stays(tmp_path: Path) -> None:
    spool = write_spool(tmp_path / "spool", [ask([FIRST], LIST, at=0)])
    out = tmp_path / "dataset"
    build([spool], out)
    before = everything_in(out)
    with pytest.raises(DatasetError, match="--overwrite"):
        build([spool], out)
    assert everything_in(out) == before
    build([spool], out, overwrite=True)
    (out / "notes.txt").write_text("mine")
    with pytest.raises(DatasetError, match="holds more than a data set"):
        build([spool], out, overwrite=True)


def test_a_full_disk_is_said_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = write_spool(tmp_path / "spool", [ask([FIRST], LIST, at=0)])
    monkeypatch.setattr(scratch, "_TABLES", "PRAGMA max_page_count = 6;" + scratch._TABLES)
    long = [ask([user(f"{i}" * 9000)], LIST, at=1.0 + i) for i in range(20)]
    write_spool(spool, long)
    with pytest.raises(DatasetError, match=r"disk is full.*free some space"):
        build([spool], tmp_path / "dataset")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["spool"]


def test_a_key_makes_hashes_comparable(tmp_path: Path) -> None:
    spool = write_spool(tmp_path / "spool", [ask([FIRST], LIST, at=0)])
    key = tmp_path / "team.key"
    build([spool], tmp_path / "one", key_file=key)
    build([spool], tmp_path / "two", key_file=key)
    assert (tmp_path / "two.private" / "key").read_bytes() == key.read_bytes()
    key.write_bytes(b"no key")
    with pytest.raises(DatasetError, match="holds no hash key"):
        build([spool], tmp_path / "three", key_file=key)
    assert not (tmp_path / "three").exists()
