from middlewatch_agent.launcher import config, tidy


def test_only_what_long_gone_attempts_of_the_run_left_is_forgotten(tmp_path):
    (tmp_path / "launcher.toml").write_text(
        '[runs.demo]\ncommand = ["x"]\ncheckpoint_dir = "ck"\n[nodes.n01]\nstate_dir = "n01"\n'
    )
    old, kept = 10, 10 + 1
    endings = {"ranks": ("json", "json.claim", "error"), "logs": ("log",), "worker": ("sock", "sock.stacks")}
    for folder, names in endings.items():
        (tmp_path / "n01" / folder).mkdir(parents=True)
        for name in names:
            for attempt in (old, kept):
                (tmp_path / "n01" / folder / f"demo.{attempt}.0.{name}").touch()
    for stranger in ("demo.2.1.0.json", "other.1.0.json", "demo.1.json", "demo.1.0.txt", "demo.x.0.json"):
        (tmp_path / "n01/ranks" / stranger).touch()
    gone = tidy.forget_old(config.load(tmp_path / "launcher.toml"), "demo", old + tidy.KEEP_ATTEMPTS)
    assert gone == 6
    left = {path.name for path in (tmp_path / "n01").rglob("*") if path.is_file()}
    assert not any(name.startswith("demo.10.") for name in left)
    assert {"demo.2.1.0.json", "other.1.0.json", "demo.1.json", "demo.1.0.txt", "demo.11.0.log"} <= left
