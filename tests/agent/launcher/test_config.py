import pytest
from middlewatch_agent.launcher import config

GOOD = """
[runs.demo]
command = ["python", "train.py"]
checkpoint_dir = "ck"
[nodes.n01]
state_dir = "/data/n01"
"""


def load(tmp_path, text):
    path = tmp_path / "launcher.toml"
    path.write_text(text)
    return config.load(path)


def test_relative_folders_count_from_the_files_own_place(tmp_path):
    found = load(tmp_path, GOOD)
    assert found.run("demo").checkpoint_dir == str(tmp_path / "ck")
    assert found.node("n01").state_dir == "/data/n01"
    assert found.run("demo").grace_s == 2.0


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (('command = ["python", "train.py"]', "command = []"), "command"),
        (('command = ["python", "train.py"]', 'command = "python"'), "command"),
        (('checkpoint_dir = "ck"', ""), "checkpoint_dir"),
        (('checkpoint_dir = "ck"', 'checkpoint_dir = "ck"\nranks_per_node = 0'), "ranks_per_node"),
        (('checkpoint_dir = "ck"', 'checkpoint_dir = "ck"\nranks_per_node = 65'), "ranks_per_node"),
        (('checkpoint_dir = "ck"', 'checkpoint_dir = "ck"\ngrace_s = 601'), "grace_s"),
        (('checkpoint_dir = "ck"', 'checkpoint_dir = "ck"\nshell = true'), "shell"),
        (("[runs.demo]", '[runs."../demo"]'), "'../demo' is not a name"),
        (("[nodes.n01]", "[nodes.n01"), "launcher.toml"),
        (("[runs.demo]", 'scheduler = "pbs"\n[runs.demo]'), "scheduler"),
        (
            ("[runs.demo]", 'scheduler = "slurm"\n[runs.demo]\npreload = ["torch"]'),
            "works under the local scheduler alone",
        ),
    ],
)
def test_a_mistake_is_named(tmp_path, change, word):
    with pytest.raises(config.ConfigError, match=word):
        load(tmp_path, GOOD.replace(*change))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(config.ConfigError, match=r"launcher\.toml"):
        config.load(tmp_path / "launcher.toml")


def test_a_file_that_is_too_large_is_refused(tmp_path):
    with pytest.raises(config.ConfigError, match="larger"):
        load(tmp_path, GOOD + "#" * config.MAX_CONFIG_BYTES)
