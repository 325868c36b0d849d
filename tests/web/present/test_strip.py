from controlplane.domain.accounting.intervals import Label, Span
from controlplane.web.present import strip


def test_every_label_of_the_account_has_a_look_and_words():
    assert set(strip.CAUSES) == set(Label)


def test_the_pieces_fill_the_strip_from_edge_to_edge():
    spans = [Span(0, 700, Label.TRAIN_SAFE), Span(700, 800, Label.DETECT), Span(800, 1000, Label.TRAIN_AT_RISK)]
    shown = strip.pieces(spans, 0, 1000)
    assert [(piece.cause, piece.x, piece.width) for piece in shown] == [
        ("train", 0, 700), ("down", 700, 100), ("risk", 800, 200)
    ]  # fmt: skip
    assert shown[1].title == "not noticed yet, 0.1 s"


def test_a_piece_too_thin_to_see_joins_its_neighbour_and_stays_in_the_list():
    spans = [Span(0, 86_300_000, Label.TRAIN_SAFE), Span(86_300_000, 86_301_000, Label.EVAL),
             Span(86_301_000, 86_400_000, Label.TRAIN_SAFE)]  # fmt: skip
    shown = strip.pieces(spans, 0, 86_400_000)
    assert [piece.cause for piece in shown] == ["train", "train"]
    assert sum(piece.width for piece in shown) == strip.WIDTH
    told = strip.parts({Label.TRAIN_SAFE: 86_399_000, Label.EVAL: 1000, Label.IDLE: 0}, 86_400_000)
    assert [line.words for line in told] == ["training, saved", "evaluation"]


def test_the_strip_is_said_in_words():
    told = strip.parts({Label.TRAIN_SAFE: 900, Label.DETECT: 100}, 1000)
    assert strip.spoken(told) == "training, saved 90.0 %, not noticed yet 10.0 %"
    assert strip.spoken([]) == "nothing recorded yet"
