from __future__ import annotations

import pytest


def test_what_was_lost_in_an_outage_is_delivered_by_a_replay(project, site):
    site.status["*"] = 503
    feed = project.crawl(*[f"/{number}" for number in range(5)])
    assert project.states(feed) == {"open": 5}
    assert project.items() == []

    site.status.clear()
    output = project.run("replay", feed)
    assert "shop: 5 replayed, 5 done, 0 failed again, 0 still open" in output
    assert output.splitlines()[-1] == "left: nothing"
    assert project.states(feed) == {"done": 5}
    assert sorted(item["url"] for item in project.items()) == [f"{site.root}/{number}" for number in range(5)]
    assert {(str(item["extra"]), item["tag"]) for item in project.items()} == {("[1, 2]", "t")}
