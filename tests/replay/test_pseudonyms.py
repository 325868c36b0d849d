from controlplane.replay.pseudonyms import Pseudonyms


def test_names_of_nodes_and_runs_are_replaced_wherever_they_stand():
    other = Pseudonyms(["gpu-17", "gpu-1"], ["llama"])
    told = other.of(
        {"node": "gpu-17", "event": {"run": "llama", "data": {"text": "gpu-1: lost gpu-17, gpu-170 is fine"}}}
    )
    assert told == {
        "node": "node-0001",
        "event": {"run": "run-00", "data": {"text": "node-0000: lost node-0001, gpu-170 is fine"}},
    }


def test_machines_gpus_and_addresses_become_digests_that_stay_the_same_inside_one_recording():
    other, next_one = Pseudonyms([], []), Pseudonyms([], [])
    data = {"machine_id": "abc", "uuid": "GPU-aba438d2-e4e4", "peer": "10.0.3.7:29500"}
    told = other.of(data)
    assert told == other.of(data)
    assert told != next_one.of(data)
    assert "abc" not in told["machine_id"]
    assert told["uuid"].startswith("GPU-")
    assert "aba438d2" not in told["uuid"]
    assert "10.0.3.7" not in told["peer"]
