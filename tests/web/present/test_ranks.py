from types import SimpleNamespace

from controlplane.web.present.ranks import heat_cells, heat_words


def view(*computes):
    return SimpleNamespace(
        ranks=[{"rank": rank, "node": f"n{rank:02}", "compute_ms": value} for rank, value in enumerate(computes)]
    )


def test_a_rank_that_computes_longer_than_its_peers_stands_out_with_its_number():
    cells = heat_cells(view(100, 100, 106, 102.5, 100, None))
    assert [cell.heat for cell in cells] == ["even", "even", "slower", "slow", "even", "unknown"]
    assert cells[2].title == "rank 2 on n02: +6.0 %"
    assert heat_words(cells) == (
        "2 of 6 ranks compute longer than the median: rank 2 on n02: +6.0 %; rank 3 on n03: +2.5 %."
    )
    assert heat_words(heat_cells(view(100, 100, 100, 110))) == (
        "1 of 4 ranks computes longer than the median: rank 3 on n03: +10.0 %."
    )
    many = heat_words(heat_cells(view(*[100] * 6, *[120] * 5)))
    assert many.endswith("rank 8 on n08: +20.0 % and 2 more.")


def test_ranks_that_are_alike_are_said_to_be():
    assert heat_words(heat_cells(view(100, 101, 99))) == "No rank computes longer than its peers."


def test_without_windows_there_is_no_heat_strip():
    assert heat_cells(view(None, None)) == []
    assert heat_cells(view()) == []
