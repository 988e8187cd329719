"""The published study is what its configuration says, and its page shows what is in its file."""

from __future__ import annotations

import json
from typing import Any

from examples.lm.config import read_tables
from examples.lm.study_report import table
from tests.lm.conftest import ROOT

FOLDER = ROOT / "docs" / "study"


def test_the_page_shows_what_came_of_the_configuration() -> None:
    lines = (FOLDER / "results.jsonl").read_text(encoding="utf-8").splitlines()
    found: list[dict[str, Any]] = [json.loads(line) for line in lines]
    assert len({each["digest"] for each in found}) == len(found)
    config = read_tables(ROOT / "examples" / "lm" / "configs" / "study.toml")
    study, names = config["study"], [row["name"] for row in config["rows"]]
    outcomes, speeds = {}, {}
    for name in names:
        mine = [each for each in found if each["row"] == name]
        tuned = [each for each in mine if each["kind"] == "tuning"]
        outcomes[name] = [each for each in mine if each["kind"] == "seed"]
        speeds[name] = next((each for each in mine if each["kind"] == "speed"), None)
        # The same tuning for every row, and its best for every seed.
        assert [each["learning_rate"] for each in tuned] == study["learning_rates"]
        assert {each["step"] for each in tuned} == {study["tuning_steps"]}
        best = min(tuned, key=lambda each: each["val_loss"])["learning_rate"]
        assert {each["learning_rate"] for each in outcomes[name]} == {best}
        assert [each["seed"] for each in outcomes[name]] == study["seeds"]
        assert {each["step"] for each in outcomes[name]} == {config["train"]["steps"]}
    assert table(outcomes, speeds) == (FOLDER / "table.md").read_text(encoding="utf-8")
    assert table(outcomes, speeds) in (ROOT / "docs" / "study.md").read_text(encoding="utf-8")
    for name in ("curves.png", "tradeoff.png"):
        assert (FOLDER / name).read_bytes().startswith(b"\x89PNG")


def test_the_page_shows_what_has_run_of_the_design_space() -> None:
    """In several sittings: some rows may lack runs, none has others than its own."""
    lines = (FOLDER / "design" / "results.jsonl").read_text(encoding="utf-8").splitlines()
    found: list[dict[str, Any]] = [json.loads(line) for line in lines]
    assert len({each["digest"] for each in found}) == len(found)
    config = read_tables(ROOT / "examples" / "lm" / "configs" / "design.toml")
    study, names = config["study"], [row["name"] for row in config["rows"]]
    page = (ROOT / "docs" / "study.md").read_text(encoding="utf-8")
    outcomes: dict[str, list[dict[str, Any]]] = {}
    for name in names:
        mine = [each for each in found if each["row"] == name]
        tuned = {each["learning_rate"]: each for each in mine if each["kind"] == "tuning"}
        outcomes[name] = [each for each in mine if each["kind"] == "seed"]
        assert {each["step"] for each in tuned.values()} <= {study["tuning_steps"]}
        perplexities = [f"{tuned[rate]['perplexity']:.1f}" if rate in tuned else "" for rate in study["learning_rates"]]
        assert f"| {name} | {' | '.join(perplexities)} |" in page
        if outcomes[name]:
            assert list(tuned) == study["learning_rates"]
            best = min(tuned.values(), key=lambda each: each["val_loss"])["learning_rate"]
            assert {each["learning_rate"] for each in outcomes[name]} == {best}
            assert [each["seed"] for each in outcomes[name]] == study["seeds"][: len(outcomes[name])]
            assert {each["step"] for each in outcomes[name]} == {config["train"]["steps"]}
    assert len(found) == sum(each["row"] in names for each in found)
    shown = table(outcomes, {})
    assert shown == (FOLDER / "design" / "table.md").read_text(encoding="utf-8")
    assert shown in page
    # "both" is a row of the study too, and its runs are those.
    whole = (FOLDER / "results.jsonl").read_text(encoding="utf-8").splitlines()
    assert {line for line in lines if json.loads(line)["row"] == "both"} <= set(whole)
