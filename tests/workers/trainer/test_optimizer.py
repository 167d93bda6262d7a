from __future__ import annotations

import subprocess
import sys

import torch
from torch.nn import Parameter

from workers.trainer.optimizer import AdamW


def make_parameters() -> list[Parameter]:
    random = torch.Generator().manual_seed(1)
    return [Parameter(torch.randn(shape, generator=random)) for shape in ((5, 3), (7,))]


def test_it_takes_the_steps_of_torch_s_adamw_to_the_bit() -> None:
    ours, theirs = make_parameters(), make_parameters()
    optimizer = AdamW(ours, (0.9, 0.95), 0.05)
    oracle = torch.optim.AdamW(theirs, betas=(0.9, 0.95), weight_decay=0.05, fused=True)
    for step in range(5):
        oracle.param_groups[0]["lr"] = 1e-2 / (1 + step)
        for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            torch.autograd.backward((a * a * (i + 1)).sin().sum())
            torch.autograd.backward((b * b * (i + 1)).sin().sum())
        optimizer.step(1e-2 / (1 + step))
        oracle.step()
        optimizer.zero_grad()
        oracle.zero_grad()
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_a_loaded_state_continues_where_it_was_saved() -> None:
    first = make_parameters()
    optimizer = AdamW(first, (0.8, 0.9), 0.1)

    def advance(parameters: list[Parameter], by: AdamW) -> None:
        for p in parameters:
            torch.autograd.backward((p * p).sum())
        by.step(1e-2)
        by.zero_grad()

    advance(first, optimizer)
    second = [Parameter(p.detach().clone()) for p in first]
    copy = AdamW(second, (0.5, 0.5), 0.0)
    copy.load(optimizer.state())
    advance(first, optimizer)
    advance(second, copy)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_it_does_not_import_the_compiler() -> None:
    program = (
        "import sys, torch\n"
        "from workers.trainer.optimizer import AdamW\n"
        "parameter = torch.nn.Parameter(torch.ones(3))\n"
        "optimizer = AdamW([parameter], (0.9, 0.95), 0.0)\n"
        "torch.autograd.backward(parameter.sum())\n"
        "optimizer.step(0.1)\n"
        "sys.exit('torch._dynamo' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
