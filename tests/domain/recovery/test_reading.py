"""Files that an operator got wrong: each is refused with its line, its field and the reason."""

import pytest

from controlplane.domain.recovery.compiling import compile_all
from controlplane.domain.recovery.document import Document, Problem
from controlplane.runbooks import files
from tests.domain.recovery.shelf import BUILT_IN

HEAD = "runbook: own\ncode: OPS-1\nversion: 1\ntitle: Own\nsummary: Does it.\n"
STEPS = "steps:\n  - do: confirm\n  - do: stop\n"
SOUND = HEAD + "answers:\n  - class: crash\n" + STEPS


def compiled(*texts):
    documents = [Document(f"{place}.yaml", text, files.parse(text)) for place, text in enumerate(texts)]
    return compile_all(documents, BUILT_IN)


def problems(*texts):
    return [problem for found in compiled(*texts).problems.values() for problem in found]


def why(text):
    (problem,) = problems(text)
    return str(problem)


def test_a_sound_file_has_no_problem_and_keeps_where_each_step_stands():
    made = compiled(SOUND)
    assert made.problems == {}
    assert [(step.name, step.line) for step in made.catalog.runbooks["own"].steps] == [("confirm", 9), ("stop", 10)]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (SOUND.replace("code: OPS-1", "code: 7"), "line 2: code: must be a text"),
        (SOUND.replace("version: 1", "version: 0"), "line 3: version: must be a number from 1 to 1000000"),
        (SOUND.replace("version: 1", "version: true"), "line 3: version: must be a number from 1 to 1000000"),
        (SOUND.replace("title: Own", f"title: {'x' * 101}"), "line 4: title: has 101 characters; 100 are allowed"),
        (SOUND.replace("title: Own", 'title: "a\\u202eb"'), "line 4: title: has characters that cannot be shown"),
        (SOUND.replace("class: crash", "class: crush"), "line 7: answers[0].class: must be one of storage_stall"),
        (SOUND + "enabled: perhaps\n", "line 11: enabled: must be true or false"),
        (SOUND + "priority: 101\n", "line 11: priority: must be a number from 0 to 100"),
        (SOUND + "limits:\n  uses: 2.5\n", "line 12: limits.uses: must be a whole number"),
        (SOUND + "limits:\n  within: 1 fortnight\n", "line 12: limits.within: must be a time such as"),
        (SOUND + "start:\n  Fault: {about: x}\n", "line 12: start.Fault: must be named by a lower-case word"),
        (SOUND + "start:\n  fault: {about: x, choices: [a], default: b}\n", "line 12: start.fault.default: must be"),
        (SOUND + "start:\n  fault: {}\n", "line 12: start.fault.about: is missing"),
        (SOUND + "  - do: explode\n", "line 11: steps[2].do: no action is called that"),
        (SOUND + "  - do: stop\n", "line 1: steps: stop stands twice"),
        (SOUND + "  - use: nowhere\n", "line 11: use: no sound runbook is called nowhere"),
        (SOUND + "  - use: own\n", "line 11: use: a cycle: own uses own"),
        (SOUND + "  - use: own\n    within: 3 s\n", "line 12: steps[2].within: is not known here"),
        (SOUND + "  - do: launch\n", "line 11: steps: launch needs nodes, restore_step, which no earlier step gives"),
        (SOUND + "  - do: drain\n    within: 91 d\n", "line 12: steps[2].within: must be a time such as"),
        (SOUND + "  - do: drain\n    within: 3\n", "line 12: steps[2].within: must be a time such as"),
        (SOUND + "  - do: drain\n    retries: 11\n", "line 12: steps[2].retries: must be a number from 0 to 10"),
        (SOUND + "  - do: drain\n    undo: pray\n", "line 12: steps[2].undo: no action is called pray"),
        (SOUND + "  - do: drain\n    with: {force: true}\n", "line 12: steps[2].with.force: is not known here"),
        (SOUND + "  - do: drain\n    say: {done: '{a.b}'}\n", "line 12: steps[2].say.done: {a.b} is no plain"),
        (SOUND + "  - do: drain\n    say: {done: 'a {'}\n", "line 12: steps[2].say.done: cannot be filled"),
        (SOUND.replace("  - do: confirm\n", ""), "line 9: steps: stop comes before any of await_boundary, confirm"),
        (HEAD + "steps: []\n", "line 6: steps: must have at least one step"),
        (HEAD, "line 1: steps: is missing"),
        ("- 1\n", "line 1: must be a mapping of names to values"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line_its_field_and_the_reason(wrong, told):
    assert why(wrong).startswith(told)


def test_all_mistakes_of_a_file_are_told_at_once_in_the_order_of_its_lines():
    text = SOUND + "  - do: explode\n  - do: implode\nsurprise: 1\n"
    assert [(problem.line, problem.field) for problem in problems(text)] == [
        (11, "steps[2].do"), (12, "steps[3].do"), (13, "surprise"),
    ]  # fmt: skip


def test_a_cycle_over_two_files_refuses_both_and_leaves_a_third_alone():
    one = HEAD + "steps:\n  - use: two\n"
    two = one.replace("runbook: own", "runbook: two").replace("use: two", "use: own")
    third = SOUND.replace("runbook: own", "runbook: third")
    made = compiled(one, two, third)
    assert set(made.catalog.runbooks) == {"third"}
    assert [found[0].why for found in made.problems.values()] == [
        "a cycle: own uses two uses own", "a cycle: two uses own uses two",
    ]  # fmt: skip


def test_of_two_runbooks_of_one_id_the_first_stands():
    made = compiled(SOUND, SOUND.replace("title: Own", "title: Other"))
    assert made.catalog.runbooks["own"].title == "Own"
    assert made.problems["1.yaml"] == [Problem(1, "runbook", "own is also in 0.yaml")]


def test_too_many_runbooks_and_too_many_steps_are_refused():
    many = [SOUND.replace("runbook: own", f"runbook: own-{number}") for number in range(201)]
    assert problems(*many) == [Problem(1, "", "more than 200 runbooks")]
    assert why(HEAD + "steps:\n" + "  - do: collect\n" * 33) == "line 7: steps: has 33 items; 32 are allowed"
    assert "each other deeper than 8" in problems(
        *[HEAD.replace("own", f"b{place}") + f"steps:\n  - use: b{place + 1}\n" for place in range(12)]
    )[0].why  # fmt: skip


def test_steps_of_other_runbooks_take_their_place_and_are_told_where_they_are_used():
    part = HEAD.replace("own", "part") + "steps:\n  - do: stop\n  - do: choose_nodes\n"
    whole = HEAD + "steps:\n  - do: confirm\n  - use: part\n  - do: launch\n"
    made = compiled(part, whole)
    assert [(step.name, step.line) for step in made.catalog.runbooks["own"].steps] == [
        ("confirm", 7), ("stop", 8), ("choose_nodes", 8), ("launch", 9),
    ]  # fmt: skip


def test_a_disabled_runbook_is_checked_and_answers_nothing():
    made = compiled(SOUND + "enabled: false\n")
    assert made.problems == {}
    assert list(made.catalog.answers_to("crash")) == []


def test_what_a_person_gives_counts_as_given():
    asked = "start:\n  restore_step: {about: where to begin}\n  nodes: {about: which}\n"
    text = HEAD + asked + "steps:\n  - do: stop\n  - do: launch\n"
    made = compiled(text)
    assert made.problems == {}
    assert made.catalog.runbooks["own"].start["nodes"].required
