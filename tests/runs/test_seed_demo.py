"""The demo data: all kinds of things are there, every rule of the domain holds, the same seed gives the same."""

from __future__ import annotations

import io
import math
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db.models import Count, F, Max, Min

from controlplane.accounts.models import Project
from controlplane.blobs import BlobStore
from runs import recipe as recipes
from runs.advantages import group_advantages, group_statistics
from runs.demo_data import seed as demo
from runs.demo_data.plan import Plan
from runs.demo_data.shape import main_shape, other_shape, recipe_source
from runs.metrics_catalogue import definition_of
from runs.models import (
    Attempt,
    Checkpoint,
    Consumption,
    Engine,
    Event,
    Group,
    MetricPoint,
    Node,
    Run,
    Stage,
    Step,
    Task,
    TaskSet,
    Trajectory,
    Turn,
    WeightVersion,
    Worker,
)
from runs.selectors.runs import trained_twice
from runs.selectors.steps import rollout_metrics, staleness_of
from runs.selectors.task_sets import usable_tasks
from runs.services.evaluations import compared, evaluate, rewards_by_task
from runs.services.weights import lineage
from sandboxes.models import Failure, FailureGroup, Limit, Sandbox
from tests import factories
from workers.rl.arrays import decode

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
SCALE = 0.001


def _seed(project: Project, **options: Any) -> demo.Seeded:
    store = BlobStore(settings.BLOB_URL)
    model_dir = Path(settings.VAR_DIR) / "demo-model"
    return demo.seed(
        project, store, model_dir, **{"scale": SCALE, "seed": 0, "now": NOW, **options}
    )


@pytest.fixture(scope="module")
def seeded(django_db_setup: None, django_db_blocker: Any) -> Iterator[demo.Seeded]:
    """Once for the module, for real; every test then looks at it within its own transaction."""
    with django_db_blocker.unblock():
        project = Project.objects.create(slug="demo-tests", name="Demo")
        yield _seed(project)
        demo.remove(project, BlobStore(settings.BLOB_URL))
        project.delete()


@pytest.fixture
def run(seeded: demo.Seeded) -> Run:
    return Run.objects.get(pk=seeded.runs[-1].pk)


@pytest.fixture
def rl(run: Run) -> Stage:
    return run.stages.get(kind="rl")


# what is there


def test_both_runs_are_labelled_and_finished_and_the_newest_is_a_clone_of_the_other(
    seeded: demo.Seeded,
) -> None:
    other, main = Run.objects.filter(pk__in=[r.pk for r in seeded.runs]).order_by("id")

    assert (main.name, other.name) == ("demo-145", "demo-60")
    for each in (main, other):
        assert each.is_demo
        assert each.status == "succeeded"
        assert "DEMO DATA" in each.recipe["description"]
    assert main.cloned_from == other
    assert main.finished_at is not None
    assert main.finished_at < NOW


@pytest.mark.parametrize("shape", [main_shape(1), main_shape(SCALE), other_shape(1)])
def test_a_recipe_is_one(shape: Any) -> None:
    recipe = recipes.load(recipe_source(shape, "demo/model"))

    assert [stage.kind for stage in recipe.stages] == ["eval", "sft", "eval", "rl", "eval"]


def test_every_way_to_end_is_there(run: Run) -> None:
    trajectories = Trajectory.objects.filter(run=run)
    attempts = Attempt.objects.filter(run=run)

    assert set(trajectories.values_list("status", flat=True)) == {
        "completed",
        "failed",
        "cancelled",
    }
    assert set(attempts.values_list("status", flat=True)) == {"completed", "failed", "cancelled"}
    assert {"submitted", "turn_cap"} <= set(attempts.values_list("stop_reason", flat=True))
    assert attempts.filter(number__gt=1).exists()
    assert set(Group.objects.filter(run=run).values_list("status", flat=True)) == {
        "consumed",
        "scored",
        "dropped",
    }
    reasons = Group.objects.filter(run=run, status="dropped").values_list("drop_reason", flat=True)
    assert {"superseded", "too_few_valid"} <= set(reasons)


def test_the_trainer_was_resumed_three_times_and_its_ghosts_are_there(run: Run, rl: Stage) -> None:
    statuses = Counter(Step.objects.filter(stage=rl).values_list("status", flat=True))

    assert run.resume == 3
    assert statuses["done"] == rl.num_steps == rl.num_steps_done
    assert statuses["failed"] == 3
    assert statuses["superseded"] > 0
    assert set(MetricPoint.objects.filter(run=run).values_list("resume", flat=True)) == {0, 1, 2, 3}


def test_failures_have_evidence_and_their_groups_every_state(seeded: demo.Seeded) -> None:
    groups = FailureGroup.objects.filter(project__slug="demo-tests")

    assert groups.filter(resolved_at__isnull=False, regressed_at__isnull=True).exists()
    assert groups.filter(regressed_at__isnull=False).exists()
    assert groups.filter(ignored_until__gt=NOW).exists()
    assert groups.filter(
        resolved_at__isnull=True, regressed_at__isnull=True, ignored_until__isnull=True
    ).exists()
    for group in groups.annotate(
        num=Count("failures"), last=Max("failures__at"), first=Min("failures__at")
    ):
        assert (group.num_failures, group.first_at, group.last_at) == (
            group.num,
            group.first,
            group.last,
        )
    failure = Failure.objects.filter(project__slug="demo-tests").first()
    assert failure is not None
    assert failure.evidence["log"]


def test_machines_limits_boxes_and_weights_are_there(run: Run) -> None:
    assert Engine.objects.filter(run=run, status="gone").count() == 24
    assert Engine.objects.filter(run=run, status="lost").count() == 4
    assert Node.objects.filter(hostname__startswith="demo-").count() == 5
    assert set(Worker.objects.values_list("kind", flat=True)) == {"rollout", "train", "engine"}
    assert Limit.objects.filter(project=run.project).count() > 5
    boxes = Sandbox.objects.filter(run_id=run.pk)
    assert set(boxes.values_list("driver", flat=True)) == {"docker", "e2b"}
    assert set(boxes.values_list("status", flat=True)) == {"gone", "failed"}
    assert set(Checkpoint.objects.filter(run=run).values_list("status", flat=True)) == {
        "complete",
        "pruned",
    }
    levels = set(Event.objects.filter(run=run).values_list("level", flat=True))
    assert levels == {"info", "warning", "error"}
    kinds = set(Event.objects.filter(run=run).values_list("kind", flat=True))
    assert {"run_paused", "run_unpaused", "rolled_back", "task_quarantined", "engine_lost"} <= kinds


def test_no_training_repository_is_held_out(run: Run) -> None:
    train, held_out = (
        set(
            Task.objects.filter(task_set__project=run.project, task_set__split=split).values_list(
                "repository", flat=True
            )
        )
        for split in ("train", "held_out")
    )

    assert len(train) > 35
    assert not train & held_out
    assert TaskSet.objects.filter(project=run.project, split="train").get().num_tasks == 1_200


def test_a_broken_task_is_in_quarantine_after_three_defects_and_used_no_more(run: Run) -> None:
    bad = Task.objects.filter(task_set__project=run.project, quarantined_at__isnull=False)

    assert bad.count() > 0
    train = TaskSet.objects.get(project=run.project, split="train")
    assert usable_tasks(train).count() == 1_200 - bad.count()
    for task in bad:
        late = Group.objects.filter(run=run, task=task, opened_at__gt=task.quarantined_at)
        assert not late.exists()


def test_turns_hold_what_pages_must_show_as_text(run: Run) -> None:
    turns = Turn.objects.filter(attempt__run=run)

    assert turns.filter(observation__contains="<script>").exists()
    assert turns.filter(log__contains="\x1b[31m").exists()
    assert turns.filter(observation__contains="\u202e").exists()
    assert turns.filter(is_timed_out=True, exit_code=124).exists()
    assert turns.filter(truncated_bytes__gt=0).exists()
    assert turns.filter(command="", exit_code__isnull=True).exists()
    repeated = turns.values("attempt", "command").annotate(num=Count("id")).order_by("-num").first()
    assert repeated is not None
    assert repeated["num"] > 15


# the rules of the domain


def test_no_trajectory_is_trained_twice_though_some_were_by_a_superseded_step(
    run: Run, rl: Stage
) -> None:
    assert trained_twice(run.pk) == 0
    again = (
        Consumption.objects.filter(step__stage=rl).values("trajectory").annotate(n=Count("step"))
    )
    assert (
        again.filter(n__gt=1).exists()
        or Consumption.objects.filter(
            step__status="superseded", trajectory__group__status="dropped"
        ).exists()
    )


def test_a_done_step_names_its_groups_and_consumed_their_valid_members(rl: Stage) -> None:
    for step in Step.objects.filter(stage=rl, status="done"):
        members = Trajectory.objects.filter(group__step=step, status="completed")
        assert step.groups.count() == step.num_groups == 8
        assert set(step.consumptions.values_list("trajectory", flat=True)) == set(
            members.values_list("pk", flat=True)
        )
        assert step.num_trajectories == members.count()


def test_group_statistics_and_advantages_are_those_of_the_members(run: Run) -> None:
    for group in (
        Group.objects.filter(run=run).exclude(status="dropped").prefetch_related("trajectories")
    ):
        members = sorted(group.trajectories.all(), key=lambda m: m.index)
        rewards = [m.reward for m in members]
        stats = group_statistics(rewards)
        assert group.num_valid == stats.num_valid
        assert group.num_ended == group.num_members == len(members)
        assert group.reward_mean == pytest.approx(stats.mean)
        if group.status == "consumed":
            expected = group_advantages(rewards, "grpo")
            assert [m.advantage for m in members] == pytest.approx(expected)
        versions = [m.version_min for m in members if m.reward is not None]
        assert group.oldest_version == min(v for v in versions if v is not None)


def test_evaluations_are_what_production_computes(run: Run) -> None:
    before = None
    for stage in run.stages.filter(kind="eval").order_by("index"):
        assert stage.result == compared(evaluate(rewards_by_task(stage)), before)
        versions = Turn.objects.filter(attempt__stage=stage).aggregate(
            low=Min("version_min"), high=Max("version_max")
        )
        assert versions == {"low": stage.weight_version, "high": stage.weight_version}
        before = stage


def test_curves_are_computed_from_the_rows(rl: Stage) -> None:
    """Those that later rows do not change: what was discarded meanwhile is of the past."""
    timeless = ("reward/mean", "rollout/groups_mixed", "rollout/valid_share", "rollout/turns_mean")
    for step in Step.objects.filter(stage=rl, status="done").select_related("run"):
        points = dict(
            MetricPoint.objects.filter(run=rl.run, resume=step.resume, step=step.index).values_list(
                "name", "value"
            )
        )
        expected = rollout_metrics(step)
        expected = {
            name: expected[name]
            for name in (*timeless, "rollout/tail_share", "rollout/output_tokens_mean")
        }
        expected |= staleness_of(step)
        for name, value in expected.items():
            assert points[name] == pytest.approx(value), name
        assert step.reward_mean == pytest.approx(points["reward/mean"])


def test_every_curve_is_in_the_catalogue_and_one_has_no_number(run: Run) -> None:
    points = MetricPoint.objects.filter(run=run)

    names = set(points.values_list("name", flat=True))
    assert [name for name in names if definition_of(name) is None] == []
    values = list(points.values_list("value", flat=True))
    assert sum(map(math.isnan, values)) == 1
    assert sum(map(math.isinf, values)) == 1


def test_attempts_add_up_to_their_turns(run: Run) -> None:
    attempts = Attempt.objects.filter(run=run).annotate(
        num=Count("turns"), low=Min("turns__version_min"), high=Max("turns__version_max")
    )

    for attempt in attempts:
        assert attempt.num == attempt.num_turns
        assert (attempt.low, attempt.high) == (attempt.version_min, attempt.version_max)


def test_turns_follow_one_another_within_their_attempt(run: Run) -> None:
    for attempt in Attempt.objects.filter(run=run, status="completed").order_by("id")[:50]:
        end = attempt.started_at
        assert end is not None
        for turn in attempt.turns.order_by("index"):
            assert turn.started_at >= end - timedelta(milliseconds=5)
            end = turn.started_at + timedelta(seconds=turn.llm_s + turn.exec_s)
        assert attempt.finished_at is not None
        assert end <= attempt.finished_at


def test_a_trajectory_has_the_figures_of_its_deciding_attempt(run: Run) -> None:
    last = Attempt.objects.filter(run=run, number=F("trajectory__num_attempts"))

    assert last.count() == Trajectory.objects.filter(run=run).count()
    assert not last.exclude(num_turns=F("trajectory__num_turns")).exists()
    assert not last.exclude(output_tokens=F("trajectory__output_tokens")).exists()
    assert not last.filter(reward__isnull=False).exclude(reward=F("trajectory__reward")).exists()


def test_a_broken_box_that_is_the_policys_doing_scores_zero_on_the_second_time() -> None:
    """Not at every scale: read from the plan of the full size."""
    plan = Plan(main_shape(0.3), 0)

    attributed = [a for a in plan.attempts if a.is_attributed]
    assert attributed
    for attempt in attributed:
        assert attempt.status == "completed"
        assert attempt.member.reward == 0
        assert any(before.is_suspect for before in attempt.member.attempts[:-1])


def test_versions_go_on_after_a_roll_back(run: Run) -> None:
    versions = list(WeightVersion.objects.filter(run=run).order_by("version"))

    assert [v.version for v in versions] == list(range(1, run.next_version))
    assert run.weight_version == versions[-1].version
    kept = lineage(run, run.weight_version)
    written = Trajectory.objects.filter(group__step__status="done", group__run=run).values_list(
        "version_min", flat=True
    )
    assert {v.version for v in versions} - set(kept)
    assert {v for v in written if v is not None} <= set(kept)


def test_the_last_step_keeps_its_tokens_with_both_log_probs(run: Run, rl: Stage) -> None:
    last = Step.objects.filter(stage=rl, status="done").order_by("-index").first()
    assert last is not None
    store = BlobStore(settings.BLOB_URL)

    for consumption in last.consumptions.select_related("trajectory"):
        attempt = consumption.trajectory.attempts.get(status="completed")
        arrays = decode(store.get(attempt.blob))
        starts = int((arrays.mask[1:] > arrays.mask[:-1]).sum())
        assert starts == attempt.num_turns
        assert len(store.get(consumption.logprobs)) == 4 * int(arrays.mask.sum())
    assert Attempt.objects.filter(run=run, blob="", status="completed").exists()


# the command


def test_a_second_time_it_says_that_it_is_there(seeded: demo.Seeded) -> None:
    before = list(Run.objects.filter(is_demo=True).values_list("pk", flat=True))
    out = io.StringIO()

    call_command("seed_demo", project="demo-tests", stdout=out)

    assert "--again" in out.getvalue()
    assert f"/runs/{before[-1]}/overview" in out.getvalue()
    assert list(Run.objects.filter(is_demo=True).values_list("pk", flat=True)) == before


def test_again_replaces_it_and_leaves_other_runs_alone(seeded: demo.Seeded) -> None:
    project = Project.objects.get(slug="demo-tests")
    own = factories.TrajectoryFactory(group__stage__run__project=project)
    other = Failure.objects.filter(project=project).first()
    assert other is not None
    factories.FailureFactory(group=other.group, run_id=own.run_id)
    FailureGroup.objects.filter(pk=other.group_id).update(num_failures=F("num_failures") + 1)

    again = _seed(project, again=True)

    assert {r.pk for r in again.runs}.isdisjoint({r.pk for r in seeded.runs})
    assert Run.objects.filter(project=project, is_demo=True).count() == 2
    assert Trajectory.objects.filter(pk=own.pk).exists()
    group = FailureGroup.objects.get(pk=other.group_id)
    assert group.num_failures == group.failures.count()


def test_nothing_of_it_is_left_when_it_is_removed(seeded: demo.Seeded) -> None:
    project = Project.objects.get(slug="demo-tests")

    demo.remove(project, BlobStore(settings.BLOB_URL))

    for model in (Run, TaskSet, FailureGroup, Limit, Sandbox, Failure):
        assert not model._default_manager.filter(project=project).exists(), model
    assert not Node.objects.filter(hostname__startswith="demo-").exists()


def test_an_unknown_project_is_refused_with_what_to_do() -> None:
    with pytest.raises(CommandError, match="There is no project nowhere"):
        call_command("seed_demo", project="nowhere")


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    first, second, other = (
        Plan(main_shape(SCALE), 3),
        Plan(main_shape(SCALE), 3),
        Plan(main_shape(SCALE), 4),
    )

    def figures(plan: Plan) -> list[Any]:
        return [(a.started_at, a.finished_at, a.status, a.num_turns) for a in plan.attempts]

    assert figures(first) == figures(second)
    assert [p for p in first.points if not math.isnan(p.value)] == [
        p for p in second.points if not math.isnan(p.value)
    ]
    assert figures(first) != figures(other)
