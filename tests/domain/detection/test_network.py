from controlplane.domain.detection import hardware
from controlplane.domain.findings import Stage as Sure
from tests.domain.stage import Stage


def training():
    stage = Stage(nodes=4)
    for node in stage.names:
        switch = "sw0" if node in ("n0", "n1") else f"sw-{node}"
        stage.send("node.hello", node=node, run=None, boot_id="b", hardware={}, labels={"switch": switch})
    stage.launch()
    stage.train(1, 3, 2.0)
    return stage


def link(stage, node, word, port="ib0"):
    text = f"mlx5_core 0000:ca:00.0 {port}: Link {word}"
    stage.send("node.log", node=node, run=None, source="kernel", text=text, boot_id="b", gap=False)


def network(stage):
    return [item for item in stage.log if item.klass == "network_fault"]


def said_of(stage):
    return hardware.testimony(stage.machine._state, stage.policy, stage.now)


def test_a_flap_that_heals_within_seconds_is_only_counted():
    stage = training()
    link(stage, "n2", "down")
    stage.wait(4)
    link(stage, "n2", "up")
    stage.wait(30)
    assert network(stage) == []
    assert said_of(stage) == []


def test_a_port_that_stays_down_is_told_after_the_time_of_a_flap_and_taken_back_when_it_works_again():
    stage = training()
    link(stage, "n2", "down")
    went = stage.now
    assert stage.machine.due(stage.now) <= went + stage.policy.flap_s
    stage.wait(stage.policy.flap_s + 1)
    found = network(stage)[0]
    assert (found.entity, found.stage) == ("network:n2/ib0", Sure.CONFIRMED)
    assert found.sentence == "port ib0 of n2 is down"
    assert [(line.entity, line.weight) for line in found.evidence] == [("node:n2", 4.0)]
    stage.wait(60)
    link(stage, "n2", "up")
    stage.wait(2)
    assert network(stage)[-1].stage == Sure.CLEARED


def test_flaps_are_remembered_for_a_day():
    stage = training()
    for _ in range(stage.policy.flap_limit):
        link(stage, "n2", "down")
        stage.now += 3
        link(stage, "n2", "up")
        stage.now += 1800
    stage.sweep()
    stage.now += 3600
    stage.sweep()
    assert [item.sentence for item in network(stage)] == ["port ib0 of n2 went down 5 times in a day"]


def test_ports_of_two_nodes_under_one_switch_are_the_switch():
    stage = training()
    for node in ("n0", "n1"):
        link(stage, node, "down")
    stage.wait(stage.policy.flap_s + 1)
    (found,) = network(stage)
    assert found.entity == "network:sw0"
    assert {line.entity for line in found.evidence} == {"network:sw0"}


def test_two_nodes_under_different_switches_are_two_ports():
    stage = training()
    for node in ("n2", "n3"):
        link(stage, node, "down")
    stage.wait(stage.policy.flap_s + 1)
    assert {item.entity for item in network(stage)} == {"network:n2/ib0", "network:n3/ib0"}


def test_a_report_of_health_tells_of_a_port_that_changes_and_not_of_one_that_was_never_up():
    stage = training()
    for state in ("up", "down", "down"):
        nics = [{"name": "mlx5_0", "state": state, "errors": 0}, {"name": "mlx5_9", "state": "down", "errors": 0}]
        stage.send("node.health", node="n2", run=None, gpus=[], disks=[], nics=nics)
        stage.wait(15)
    assert [item.entity for item in network(stage)] == ["network:n2/mlx5_0"]
