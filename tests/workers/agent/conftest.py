"""A byte-level chat, a scripted engine and a real shell: everything one trajectory needs."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from sandboxes.drivers.base import Sandbox, SandboxSpec
from sandboxes.drivers.local import LocalDriver
from tests.sandboxes.drivers.conftest import give_to_sandboxes
from tests.scripted_engine import Reply, Script, ScriptedEngine, in_order
from workers.agent.cancel import CancelFlag
from workers.agent.loop import AgentLimits, AgentTask, Outcome, run_trajectory
from workers.agent.transcript import Transcript, TurnRecord
from workers.engines.chat import Chat, load_chat
from workers.engines.client import EngineClient

SPECIALS = ("<|system|>", "<|user|>", "<|assistant|>", "<|tool|>", "<|end|>")


@pytest.fixture(scope="session")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Chat:
    """One token a byte, one a marker: no text is out of its vocabulary."""
    folder = tmp_path_factory.mktemp("model")
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in SPECIALS])
    tokenizer.save(str(folder / "tokenizer.json"))
    roles = {name: [f"<|{name}|>", "<|end|>"] for name in ("system", "user", "assistant", "tool")}
    (folder / "chat_format.json").write_text(json.dumps({"roles": roles, "end": "<|end|>"}))
    return load_chat(folder)


@pytest.fixture(scope="session")
def template() -> Iterator[Path]:
    """A task's workspace that the sandboxes' uid can reach (pytest's own directories it cannot)."""
    root = Path(tempfile.mkdtemp(prefix="longtail-agent-"))
    root.chmod(0o755)
    workspace = root / "workspace"
    (workspace / "package" / "inner").mkdir(parents=True)
    (workspace / "package" / "module.py").write_text("value = 1\n")
    (workspace / "package" / "inner" / "deep.py").write_text("value = 2\n")
    (workspace / "README").write_text("read me\n")
    give_to_sandboxes(workspace)
    yield workspace
    shutil.rmtree(root)


@pytest.fixture(scope="session")
def driver() -> Iterator[LocalDriver]:
    driver = LocalDriver()
    if missing := driver.probe().missing:
        pytest.skip("; ".join(missing))
    yield driver
    driver.close()


@pytest.fixture
def start(driver: LocalDriver, template: Path) -> Iterator[Callable[..., Sandbox]]:
    """`start(disk_bytes=...)`: a fresh sandbox of the template."""
    boxes: list[Sandbox] = []

    def start(**fields: Any) -> Sandbox:
        boxes.append(driver.start(SandboxSpec(f"attempt-{len(boxes)}", template, **fields)))
        return boxes[-1]

    yield start
    for box in boxes:
        box.close()


@pytest.fixture
def sandbox(start: Callable[..., Sandbox]) -> Sandbox:
    return start()


LIMITS = AgentLimits(
    turn_cap=10,
    turn_token_cap=200,
    token_cap=20_000,
    agent_s=60,
    llm_call_s=10,
    command_s=10,
)


@dataclass
class Trial:
    """A trajectory to run, and everything it left."""

    chat: Chat
    sandbox: Sandbox
    engine: ScriptedEngine
    client: EngineClient
    cancel: CancelFlag = field(default_factory=CancelFlag)
    transcript: Transcript = field(default_factory=Transcript)
    turns: list[TurnRecord] = field(default_factory=list)
    recorder: Callable[[TurnRecord], None] | None = None

    def run(
        self,
        limits: AgentLimits = LIMITS,
        instruction: str = "Fix it.",
        clock: Callable[[], float] | None = None,
    ) -> Outcome:
        return run_trajectory(
            AgentTask(key="attempt-1", instruction=instruction),
            self.sandbox,
            self.client,
            self.chat,
            limits,
            self.recorder or self.turns.append,
            cancel=self.cancel,
            transcript=self.transcript,
            **({"clock": clock} if clock else {}),
        )


@pytest.fixture
def trial(chat: Chat, sandbox: Sandbox) -> Iterator[Callable[..., Trial]]:
    """`trial("echo hi", "submit")`: what the model says in each turn, as text, Reply or Script."""
    with_engines: list[ScriptedEngine] = []

    def start(*says: str | Reply, script: Script | None = None, **options: object) -> Trial:
        replies = [Reply(chat.action(s)) if isinstance(s, str) else s for s in says]
        engine = ScriptedEngine(script or in_order(replies), vocab_size=chat.vocab_size, **options)
        with_engines.append(engine.__enter__())
        return Trial(chat, sandbox, engine, EngineClient(engine.url))

    yield start
    for engine in with_engines:
        engine.close()
