"""Settings that follow from others."""

from middlewatch_agent import config


def test_an_agent_backs_off_for_three_heartbeats_at_most(tmp_path):
    assert config.load(tmp_path).longest_pause_s() == 15.0
    assert config.load(tmp_path, {"heartbeat_s": 1.0}).longest_pause_s() == 3.0


def test_its_owner_may_choose_another_limit(tmp_path):
    (tmp_path / "agent.toml").write_text("heartbeat_s = 1.0\nbackoff_max_s = 60.0\n")
    assert config.load(tmp_path).longest_pause_s() == 60.0
