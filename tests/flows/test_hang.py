from controlplane.incidents import queries
from controlplane.incidents.models import Finding


def suspected(cluster):
    return cluster.incident() is not None and cluster.incident().klass == "hang"


def test_a_rank_that_does_not_answer_confirms_the_hang_and_the_run_comes_back(cluster):
    cluster.stop_rank(1)
    cluster.until(lambda: suspected(cluster))
    assert cluster.stops == []
    cluster.until(lambda: cluster.incident().confirmed_at is not None, limit=6)
    cluster.until(lambda: cluster.incident().state != "open")
    assert len(cluster.launches) == 2
    assert cluster.execution().state == "succeeded"
    assert cluster.sent("collect").count() == 4
    assert cluster.run.incidents.count() == 1


def test_without_evidence_the_hang_is_confirmed_by_time_alone(cluster):
    cluster.training = False
    began = cluster.now
    cluster.until(lambda: suspected(cluster))
    suspect = (cluster.now - began).total_seconds()
    cluster.tick(5)
    assert cluster.stops == []
    cluster.until(lambda: cluster.incident().confirmed_at is not None)
    confirmed = (cluster.now - began).total_seconds()
    assert 8 <= suspect <= 12
    assert 17 <= confirmed <= 22
    cluster.training = True
    cluster.until(lambda: len(cluster.launches) == 2)


def test_a_hang_that_clears_by_itself_ends_the_execution_and_touches_nothing(cluster):
    cluster.training = False
    cluster.until(lambda: suspected(cluster))
    cluster.training = True
    cluster.until(lambda: cluster.execution().finished_at is not None)
    assert cluster.execution().state == "succeeded"
    assert "by itself" in cluster.execution().outcome
    assert cluster.incident().state == "resolved"
    assert Finding.objects.get().stage == "cleared"
    assert cluster.stops == []
    assert len(cluster.launches) == 1
    assert not cluster.run.executions.filter(steps__name="stop").exists()


def test_stacks_are_taken_before_anything_is_killed(cluster):
    cluster.stop_rank(1)
    cluster.until(lambda: cluster.stops)
    told = cluster.told(f"incident:{cluster.incident().pk}")
    steps = [line for line in told if line.startswith("step:")]
    assert "Collected stacks: 3 of 4 ranks answered" in steps[0]
    assert cluster.sent("collect").count() == 4


def test_who_stands_where_is_kept_with_the_incident_and_told_once(cluster):
    cluster.stands = {0: "all_reduce (torch/distributed/distributed_c10d.py:9)", 2: "batches (job/dataset.py:41)"}
    cluster.stop_rank(1)
    cluster.until(lambda: cluster.stops)
    told = [line for line in cluster.told(f"incident:{cluster.incident().pk}") if "stands in batches" in line]
    assert len(told) == 1
    assert "rank 1 did not answer (stopped)" in told[0]
    groups = queries.stack_groups(cluster.incident())
    assert groups[0].ranks == (1,)
    assert sum(group.count for group in groups) == 4
