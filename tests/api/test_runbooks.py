def test_a_person_starts_a_runbook_with_its_inputs_and_a_wrong_one_is_named(api, asking_as, run, attempt):
    wanted = {"run": "demo", "inputs": {"hypothesis": "the loss drifts"}}
    path = "runbooks/numerical-hold/start"
    made = api.post(path, **wanted)
    assert (made.status_code, made.json()["runbook"], made.json()["state"]) == (201, "numerical-hold", "running")
    assert api.post(path, **wanted).status_code == 409
    wrong = api.post(path, run="demo", inputs={"mood": "bad"})
    assert (wrong.status_code, wrong.json()["field"]) == (400, "mood")
    assert asking_as("responder").post(path, **wanted).status_code == 403
    asked = f"questions/{made.json()['id']}"
    assert api.get(asked).status_code == 404
    assert api.post(f"{asked}/answer", answer="go on as it is").status_code == 409
