"""Invented repositories, their tasks, and the patches that agents leave. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from string import Template

_OWNERS = ("harbourlight", "oakmill", "sedgefield", "tidewater", "northbank", "quarrystone")
_TRAIN = [
    "barley",
    "brine",
    "cedar",
    "chalk",
    "clover",
    "copper",
    "coral",
    "ember",
    "fennel",
    "flint",
    "garnet",
    "ginger",
    "hazel",
    "heron",
    "indigo",
    "juniper",
    "kelp",
    "lantern",
    "larch",
    "linden",
    "lupin",
    "marble",
    "marlin",
    "mica",
    "moss",
    "nettle",
    "ochre",
    "osprey",
    "pebble",
    "pewter",
    "plover",
    "quill",
    "reed",
    "rowan",
    "saffron",
    "slate",
    "sorrel",
    "tern",
    "thistle",
    "willow",
]
_HELD_OUT = [
    "amber",
    "birch",
    "cobalt",
    "damson",
    "elder",
    "fjord",
    "gorse",
    "holly",
    "iris",
    "jasper",
    "lichen",
    "maple",
]
_MODULES = (
    ("parser", "parse_header", "HeaderParser"),
    ("cache", "evict_expired", "TtlCache"),
    ("router", "match_route", "RouteTable"),
    ("schema", "coerce_value", "FieldSchema"),
    ("timeline", "merge_spans", "SpanIndex"),
    ("encoder", "encode_chunk", "ChunkEncoder"),
)
_SYMPTOMS = (
    "returns a stale value when it is called twice in the same second",
    "raises KeyError for an empty input instead of returning the default",
    "drops the last element when the input length is a multiple of the chunk size",
    "treats a negative offset as if it counted from the start",
    "compares aware and naive datetimes and fails on the first daylight-saving change",
    "keeps the lock when the callback raises, and every later call hangs",
    "loses the sign of zero when it rounds",
    "matches the shorter prefix although a longer one is registered",
)


@dataclass(frozen=True)
class Repository:
    name: str
    package: str


@dataclass(frozen=True)
class DemoTask:
    """One problem: a repository, the place of its defect, and what the tests of it are called."""

    key: str
    repository: Repository
    module: str
    function: str
    cls: str
    symptom: str
    number: int
    difficulty: str

    @property
    def instruction(self) -> str:
        return (
            f"`{self.repository.package}.{self.module}.{self.function}` {self.symptom}.\n\n"
            f"Steps to reproduce\n\n"
            f"    from {self.repository.package}.{self.module} import {self.cls}, {self.function}\n"
            f"    {self.function}({self.cls}.example({self.number}))\n\n"
            f"Expected: the documented result. Since release 2.{self.number % 17} the result is wrong.\n"
            f"Please fix {self.repository.package}/{self.module}.py; the public interface must stay as it is."
        )

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.key.encode()).hexdigest()

    def fail_to_pass(self) -> list[str]:
        stem = f"tests/test_{self.module}.py::test_{self.function}"
        return [f"{stem}_regression_{self.number}", f"{stem}_twice"][: 1 + self.number % 2]

    def pass_to_pass(self) -> list[str]:
        names = ("roundtrip", "empty", "unicode", "defaults", "ordering", "large", "copy", "repr")
        return [
            f"tests/test_{self.module}.py::test_{name}" for name in names[: 4 + self.number % 5]
        ]


@lru_cache(maxsize=4)
def tasks_of(split: str, num: int) -> tuple[DemoTask, ...]:
    """The first `num` tasks of a split ("train" or "held_out"), spread over its repositories."""
    words = _TRAIN if split == "train" else _HELD_OUT
    found = []
    for number in range(num):
        word = words[number % len(words)]
        place = number // len(words) + number
        module, function, cls = _MODULES[place % len(_MODULES)]
        owner = _OWNERS[words.index(word) % len(_OWNERS)]
        found.append(
            DemoTask(
                key=f"{owner}__{word}-{1000 + number * 7}",
                repository=Repository(f"{owner}/{word}", word),
                module=module,
                function=function,
                cls=cls,
                symptom=_SYMPTOMS[(number * 5 + place) % len(_SYMPTOMS)],
                number=number,
                difficulty=("easy", "medium", "hard")[(number * 7 + place) % 3],
            )
        )
    return tuple(found)


class _At(Template):
    delimiter = "@"


_FIX = _At("""\
diff --git a/@package/@module.py b/@package/@module.py
index 3f1c2ab..9d0e7f4 100644
--- a/@package/@module.py
+++ b/@package/@module.py
@@@@ -41,6 +41,6 @@@@ class @cls:
     def __init__(self, limit: int = 64) -> None:
         self._limit = limit
-        self._seen = {}
+        self._seen: dict[str, float] = {}
\x20
     def __len__(self) -> int:
         return len(self._seen)
@@@@ -88,5 +88,8 @@@@ def @function(value, *, default=None):
     if value is None:
         return default
-    return _lookup(value)[-1]
+    found = _lookup(value)
+    if not found:
+        return default
+    return found[-1]
\x20
\x20
""")
_WRONG = _At("""\
diff --git a/@package/@module.py b/@package/@module.py
index 3f1c2ab..5ad91c0 100644
--- a/@package/@module.py
+++ b/@package/@module.py
@@@@ -88,3 +88,6 @@@@ def @function(value, *, default=None):
     if value is None:
         return default
+    # TODO: find out why this happens
+    if value == @number:
+        return default
     return _lookup(value)[-1]
""")
_STRAY = _At("""\
diff --git a/reproduce.py b/reproduce.py
new file mode 100644
index 0000000..c83b7d1
--- /dev/null
+++ b/reproduce.py
@@@@ -0,0 +1,4 @@@@
+from @package.@module import @cls, @function
+
+print(@function(@cls.example(@number)))
+# <script>alert("a patch is text")</script> \u202egnihton\u202c
""")


def patch_of(task: DemoTask, *, is_solved: bool, variant: int) -> str:
    """What the agent changed: the fix, a wrong guess, leftovers of its search, or nothing."""
    values = {
        "package": task.repository.package,
        "module": task.module,
        "function": task.function,
        "cls": task.cls,
        "number": task.number + variant % 3,
    }
    if is_solved:
        return _FIX.substitute(values) + (_STRAY.substitute(values) if variant % 5 == 0 else "")
    parts = ([], [_WRONG], [_STRAY], [_WRONG, _STRAY])[variant % 4]
    return "".join(part.substitute(values) for part in parts)


def grade_of(
    task: DemoTask, *, is_solved: bool, is_attributed: bool, variant: int, duration_s: float
) -> dict[str, object]:
    """What the verifier said: each test by name, the totals, and the end of its output."""
    wanted, kept = task.fail_to_pass(), task.pass_to_pass()
    broken = {kept[variant % len(kept)]} if not is_solved and variant % 6 == 1 else set()
    fixed = set(wanted) if is_solved else set(wanted[1:] if variant % 7 == 2 else [])
    results = {f"fail_to_pass:{name}": name in fixed for name in wanted}
    results |= {f"pass_to_pass:{name}": name not in broken for name in kept}
    lines = [
        f"{name.split(':', 1)[1]} {'PASSED' if ok else 'FAILED'}" for name, ok in results.items()
    ]
    failed = sum(not ok for ok in results.values())
    lines.append(
        f"==== {failed} failed, {len(results) - failed} passed in {duration_s / 2:.2f}s ===="
    )
    grade: dict[str, object] = {
        "details": results,
        "output": "\n".join(lines) + "\n",
        "duration_s": round(duration_s, 3),
    }
    if is_attributed:
        return {"attributed": "policy", "evidence": "exec/oom: twice in a row", "details": {}}
    return grade
