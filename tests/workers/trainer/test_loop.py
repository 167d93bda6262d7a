from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.workers.trainer.builders import CONTEXT, VOCABULARY, make_trajectory, store, write_traces
from workers.engines.chat import load_chat
from workers.engines.reference.model import Model, load_model
from workers.rl.arrays import TrajectoryArrays
from workers.rl.losses import Objective
from workers.trainer.batches import Batch, Traces, read_batch, read_traces, write_logprobs
from workers.trainer.loop import RlSettings, SftSettings, sft_plan, train_rl, train_sft
from workers.trainer.torch_backend import TorchBackend

SETTINGS = RlSettings(temperature=1.0)
ADVANTAGES = [1.5, -0.5, 0.0, 0.0, 0.7, -0.7, 0.3, -1.0]


@pytest.fixture
def trajectories() -> list[TrajectoryArrays]:
    rng = np.random.default_rng(7)
    return [make_trajectory(rng, version=i % 3) for i in range(len(ADVANTAGES))]


def batch_of(
    directory: Path, trajectories: list[TrajectoryArrays], advantages: list[float], **keys: Any
) -> Batch:
    rows = store(directory, trajectories, advantages)
    return read_batch(rows, version=2, context_length=CONTEXT, **keys)


@pytest.fixture
def batch(tmp_path: Path, trajectories: list[TrajectoryArrays]) -> Batch:
    return batch_of(tmp_path / "blobs", trajectories, ADVANTAGES)


def weights_after(
    model_dir: Path,
    batch: Batch,
    objective: Objective | None = None,
    settings: RlSettings = SETTINGS,
    num_steps: int = 1,
) -> tuple[Tensor, dict[str, float]]:
    """All weights of a fresh backend after some steps on the batch, and the last step's metrics."""
    backend = TorchBackend(model_dir, seed=1)
    backend.reset_optimizer((0.9, 0.95), 0.0)
    metrics: dict[str, float] = {}
    for _ in range(num_steps):
        result = train_rl(backend, batch, objective or Objective(), settings, 1e-3)
        metrics = result["metrics"]
    return torch.cat([p.detach().flatten() for p in backend.model.parameters()]), metrics


def logprobs_of(model: Model, row: TrajectoryArrays, temperature: float = 1.0) -> Tensor:
    """log pi of the trained tokens by the plain padded pass: nothing shared with the product."""
    ids = torch.tensor(row.tokens.tolist())
    logits = model.logits(model.hidden(ids[None, :-1]))[0] / temperature
    chosen = torch.log_softmax(logits, -1).gather(1, ids[1:, None])[:, 0]
    return chosen[torch.tensor(row.mask[1:]) == 1]


def test_the_log_probs_that_are_kept_are_those_before_the_update(
    model_dir: Path, tmp_path: Path, trajectories: list[TrajectoryArrays]
) -> None:
    rows = store(tmp_path / "blobs", trajectories, ADVANTAGES)
    for row in rows:
        row["logprobs"] = row["url"] + ".logprobs-1"
    batch = read_batch(rows, version=2, context_length=CONTEXT)
    backend = TorchBackend(model_dir, seed=1)
    kept: list[bool] = []
    train_rl(
        backend,
        batch,
        Objective(),
        SETTINGS,
        1e-2,
        lambda p: kept.append(write_logprobs(rows, batch, p)),
    )

    before = load_model(model_dir)
    for row, arrays in zip(rows, trajectories, strict=True):
        file = np.fromfile(row["logprobs"].removeprefix("file://"), "<f4")
        expected = logprobs_of(before, arrays).detach().numpy()
        np.testing.assert_allclose(file, expected, atol=1e-5)
    assert kept == [True]


def test_a_store_that_does_not_take_log_probs_stops_no_training(
    model_dir: Path, tmp_path: Path, trajectories: list[TrajectoryArrays]
) -> None:
    rows = store(tmp_path / "blobs", trajectories, ADVANTAGES)
    for row in rows:
        row["logprobs"] = f"file://{tmp_path}/blobs"  # a directory
    batch = read_batch(rows, version=2, context_length=CONTEXT)

    assert not write_logprobs(rows, batch, batch.mu)


def test_the_gradient_is_that_of_the_formula_in_plain_torch(
    model_dir: Path, trajectories: list[TrajectoryArrays], batch: Batch
) -> None:
    model = load_model(model_dir)
    total = torch.zeros(())
    for row, advantage in zip(trajectories, ADVANTAGES, strict=True):
        logprobs = logprobs_of(model, row)
        mu = torch.tensor(row.logprobs[row.mask == 1])
        weight = (logprobs.detach() - mu).exp().clamp(max=2.0)
        total = total - (weight * (logprobs - logprobs.detach()).exp() * advantage).sum()
    loss = total / len(batch.mu)
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    norm = math.sqrt(sum(float((g.double() ** 2).sum()) for g in gradients))
    _, metrics = weights_after(model_dir, batch)
    assert metrics["train/loss"] == pytest.approx(float(loss.detach()), rel=1e-4)
    assert metrics["train/grad_norm"] == pytest.approx(norm, rel=1e-4)


@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("loss_agg", ["token_mean", "sequence_mean", "constant"])
def test_micro_batching_changes_nothing(
    model_dir: Path, batch: Batch, loss_agg: str, level: str
) -> None:
    objective = Objective(loss_agg=loss_agg, loss_constant=50.0, level=level)
    results = []
    for tokens in (1, 100, 10**6):  # every trajectory alone, some together, all in one pack
        settings = RlSettings(temperature=1.0, tokens_per_microbatch=tokens, num_minibatches=2)
        results.append(weights_after(model_dir, batch, objective, settings))
    for weights, metrics in results[:-1]:
        torch.testing.assert_close(weights, results[-1][0], rtol=0, atol=2e-5)
        for name in metrics.keys() - {"train/tokens_per_s"}:
            assert metrics[name] == pytest.approx(results[-1][1][name], rel=1e-3, abs=1e-5), name


def test_with_one_minibatch_the_clip_is_inert_and_with_more_it_is_not(
    model_dir: Path, batch: Batch
) -> None:
    _, once = weights_after(model_dir, batch, num_steps=3)
    assert once["train/clip_fraction"] == 0.0
    tight = Objective(clip_low=1e-4, clip_high=1e-4)
    settings = RlSettings(temperature=1.0, num_minibatches=4)
    _, more = weights_after(model_dir, batch, tight, settings)
    assert 0 < more["train/clip_fraction"] < 1


def test_a_zero_variance_group_stays_in_the_denominator_unless_asked(
    model_dir: Path, trajectories: list[TrajectoryArrays], tmp_path: Path
) -> None:
    degenerate = batch_of(tmp_path / "a", trajectories, [1.0, -1.0, *([0.0] * 6)])
    alone = batch_of(tmp_path / "b", trajectories[:2], [1.0, -1.0])
    _, kept = weights_after(model_dir, degenerate)
    _, without = weights_after(model_dir, degenerate, Objective(denominator="nonzero"))
    _, only = weights_after(model_dir, alone)
    share = len(alone.mu) / len(degenerate.mu)
    assert without["train/grad_norm"] == pytest.approx(only["train/grad_norm"], rel=1e-4)
    assert kept["train/grad_norm"] == pytest.approx(share * only["train/grad_norm"], rel=1e-4)
    assert kept["train/tokens"] == len(degenerate.mu)


def test_a_batch_without_advantages_has_gradient_zero_and_says_so(
    model_dir: Path, trajectories: list[TrajectoryArrays], tmp_path: Path
) -> None:
    batch = batch_of(tmp_path / "blobs", trajectories, [0.0] * len(trajectories))
    before = torch.cat([p.flatten() for p in load_model(model_dir).parameters()])
    weights, metrics = weights_after(model_dir, batch)
    assert torch.equal(weights, before)
    assert metrics["train/zero_gradient"] == 1.0
    assert (metrics["train/grad_norm"], metrics["train/skipped"]) == (0.0, 0.0)
    assert metrics["train/entropy"] > 0


def test_masked_tokens_have_gradient_zero_and_stay_in_the_denominator(
    model_dir: Path, trajectories: list[TrajectoryArrays], tmp_path: Path
) -> None:
    rows = store(tmp_path / "blobs", trajectories[:2], [1.0, 1.0])
    free = read_batch(rows, version=2, context_length=CONTEXT)
    rows[1]["is_masked"] = True
    masked = read_batch(rows, version=2, context_length=CONTEXT)
    single = read_batch(rows[:1], version=2, context_length=CONTEXT)
    _, with_mask = weights_after(model_dir, masked)
    _, only_first = weights_after(model_dir, single)
    share = len(single.mu) / len(masked.mu)
    assert with_mask["train/grad_norm"] == pytest.approx(
        share * only_first["train/grad_norm"], rel=1e-4
    )
    assert with_mask["train/ess"] == weights_after(model_dir, free)[1]["train/ess"]


def sample(model: Model, temperature: float, num_tokens: int) -> TrajectoryArrays:
    """A trajectory by the model itself, as an engine samples: logits over temperature."""
    ids, logprobs = [5, 6, 7], [0.0] * 3
    random = torch.Generator().manual_seed(3)
    for _ in range(num_tokens):
        with torch.no_grad():
            logits = model.logits(model.hidden(torch.tensor([ids])))[0, -1] / temperature
        distribution = torch.log_softmax(logits, -1)
        ids.append(int(torch.multinomial(distribution.exp(), 1, generator=random)))
        logprobs.append(float(distribution[ids[-1]]))
    is_sampled = np.arange(len(ids)) >= 3
    return TrajectoryArrays(
        np.array(ids, np.int32),
        is_sampled.astype(np.uint8),
        np.array(logprobs, np.float32),
        np.where(is_sampled, 2, -1).astype(np.int32),
    )


def test_the_log_prob_gap_vanishes_at_the_sampler_s_temperature_only(
    model_dir: Path, tmp_path: Path
) -> None:
    row = sample(load_model(model_dir), 0.7, 60)
    batch = batch_of(tmp_path / "blobs", [row], [1.0])
    _, same = weights_after(model_dir, batch, settings=RlSettings(temperature=0.7))
    _, other = weights_after(model_dir, batch, settings=RlSettings(temperature=1.0))
    assert same["train/logprob_gap"] < 1e-5
    assert same["train/ess"] == pytest.approx(1.0, abs=1e-6)
    assert other["train/logprob_gap"] > 0.05


def test_metrics_are_split_by_the_age_of_the_token(model_dir: Path, batch: Batch) -> None:
    _, metrics = weights_after(model_dir, batch)
    total = sum(
        metrics[f"train/logprob_gap/lag_{lag}"] * int((batch.lag == lag).sum()) for lag in range(3)
    )
    assert total / len(batch.lag) == pytest.approx(metrics["train/logprob_gap"])
    assert metrics["train/ess_truncated"] >= metrics["train/ess"]
    assert metrics["rollout/response_tokens"] == len(batch.mu) / len(ADVANTAGES)


def test_a_gradient_that_is_not_finite_skips_the_update_and_says_so(
    model_dir: Path, trajectories: list[TrajectoryArrays], tmp_path: Path
) -> None:
    broken = trajectories[0]
    logprobs = broken.logprobs.copy()
    logprobs[np.flatnonzero(broken.mask)[0]] = math.nan
    poisoned = TrajectoryArrays(broken.tokens, broken.mask, logprobs, broken.versions)
    bad = batch_of(tmp_path / "bad", [poisoned, *trajectories[1:]], ADVANTAGES)
    good = batch_of(tmp_path / "good", trajectories, ADVANTAGES)
    backend = TorchBackend(model_dir, seed=1)
    backend.reset_optimizer((0.9, 0.95), 0.0)
    before = torch.cat([p.detach().flatten() for p in backend.model.parameters()])
    metrics = train_rl(backend, bad, Objective(), SETTINGS, 1e-3)["metrics"]
    after = torch.cat([p.detach().flatten() for p in backend.model.parameters()])
    assert torch.equal(before, after)
    assert metrics["train/skipped"] == 1.0
    assert math.isnan(metrics["train/grad_norm"])
    assert math.isnan(metrics["train/loss"])
    assert math.isnan(metrics["train/logprob_gap"])
    # nothing of it is left in the gradients or the moments of the next step
    next_metrics = train_rl(backend, good, Objective(), SETTINGS, 1e-3)["metrics"]
    expected, fresh = weights_after(model_dir, good)
    assert next_metrics["train/grad_norm"] == fresh["train/grad_norm"]
    assert torch.equal(
        expected, torch.cat([p.detach().flatten() for p in backend.model.parameters()])
    )


def test_a_step_makes_good_trajectories_likelier_and_bad_ones_less_likely(
    model_dir: Path, trajectories: list[TrajectoryArrays], tmp_path: Path
) -> None:
    good, bad = trajectories[:2]
    backend = TorchBackend(model_dir, seed=1)
    before = [logprobs_of(backend.model, row).sum().item() for row in (good, bad)]
    batch = batch_of(tmp_path / "blobs", [good, bad], [1.0, -1.0])
    train_rl(backend, batch, Objective(correction="none"), SETTINGS, 1e-3)
    after = [logprobs_of(backend.model, row).sum().item() for row in (good, bad)]
    assert after[0] > before[0]
    assert after[1] < before[1]


@pytest.fixture
def traces(model_dir: Path, tmp_path: Path) -> Traces:
    file = write_traces(tmp_path / "traces.jsonl", 40)
    chat = load_chat(model_dir)
    return read_traces(str(file), chat, context_length=CONTEXT, observation_weight=0.1)


def test_sft_learns_the_actions_of_its_traces_and_reports_its_curve(
    model_dir: Path, traces: Traces
) -> None:
    settings = SftSettings(epochs=10, learning_rate=1e-2, tokens_per_batch=256, warmup_steps=5)
    reports: list[dict[str, Any]] = []
    result = train_sft(
        TorchBackend(model_dir, seed=1), traces, settings, seed=1, report=reports.append
    )
    assert reports[0]["action_loss"] > 0.8 * math.log(VOCABULARY)
    assert reports[-1]["action_loss"] < 0.3
    assert reports[-1]["step"] == reports[-1]["num_steps"] == result["num_steps"] == len(reports)
    assert result["tokens"] == reports[-1]["tokens"]


def test_the_learning_rate_warms_up_and_falls_along_a_cosine() -> None:
    settings = SftSettings(epochs=1, learning_rate=1.0, tokens_per_batch=1, warmup_steps=10)
    rates = [settings.learning_rate_at(step, 100) for step in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[50] == pytest.approx(0.05 + 0.95 * 0.5)
    assert rates[99] == pytest.approx(0.05, abs=1e-3)
    assert max(rates) == rates[9]
    assert SftSettings.learning_rate_at(
        SftSettings(epochs=1, learning_rate=1.0, tokens_per_batch=1, warmup_steps=0), 0, 100
    ) == pytest.approx(1.0)


def test_every_epoch_sees_every_trace_once_in_another_order(traces: Traces) -> None:
    settings = SftSettings(epochs=2, learning_rate=1e-2, tokens_per_batch=128)
    batches = sft_plan(traces, settings, seed=1)
    half = len(batches) // 2
    epochs = [[i for batch in part for i in batch] for part in (batches[:half], batches[half:])]
    assert [sorted(epoch) for epoch in epochs] == [list(range(40))] * 2
    assert epochs[0] != epochs[1]
    assert sft_plan(traces, settings, seed=1) == batches
    assert sft_plan(traces, settings, seed=2) != batches
    cut = sft_plan(traces, SftSettings(epochs=1.5, learning_rate=1, tokens_per_batch=128), seed=1)
    assert cut == batches[: round(len(batches) * 0.75)]


def test_sft_ends_early_when_its_time_is_up(model_dir: Path, traces: Traces) -> None:
    settings = SftSettings(epochs=1, learning_rate=1e-2, tokens_per_batch=64)
    result = train_sft(
        TorchBackend(model_dir, seed=1),
        traces,
        settings,
        seed=1,
        report=lambda _: None,
        max_seconds=0.0,
    )
    assert result["num_steps"] == 1
