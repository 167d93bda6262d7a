import { expect, test } from "vitest";

import { parsePatch } from "./patch";

const PATCH = `# A note of the worker.
diff --git a/calc/stats.py b/calc/stats.py
--- a/calc/stats.py
+++ b/calc/stats.py
@@ -1,3 +1,3 @@ def mean(xs):
 a
-b
+c
 d
@@ -10,1 +10,2 @@
 x
+y
diff --git a/new.txt b/new.txt
new file mode 100644
--- /dev/null
+++ b/new.txt
@@ -0,0 +1,1 @@
+last
\\ No newline at end of file
diff --git a/old.bin b/old.bin
deleted file mode 100644
Binary files a/old.bin and /dev/null differ
`;

test("files, their states and the numbers of their lines are read", () => {
  const { notes, files } = parsePatch(PATCH);
  expect(notes).toEqual(["A note of the worker."]);
  expect(files.map(({ name, states, numAdded, numRemoved }) => [name, states, numAdded, numRemoved])).toEqual([
    ["calc/stats.py", [], 2, 1],
    ["new.txt", ["new file"], 1, 0],
    ["old.bin", ["deleted", "binary, not shown"], 0, 0],
  ]);
  expect(files[0]?.hunks[0]?.lines).toEqual([
    { kind: "context", old: 1, new: 1, text: "a" },
    { kind: "removed", old: 2, new: null, text: "b" },
    { kind: "added", old: null, new: 2, text: "c" },
    { kind: "context", old: 3, new: 3, text: "d" },
  ]);
  expect(files[0]?.hunks[1]?.lines[1]).toEqual({ kind: "added", old: null, new: 11, text: "y" });
  expect(files[1]?.hunks[0]?.lines[1]?.kind).toBe("note");
});

test("a content that looks like a header stays a content", () => {
  const forged = `diff --git a/x b/x
--- a/x
+++ b/x
@@ -1,2 +1,3 @@
 kept
--- a/y
+++ b/y
+diff --git a/z b/z
`;
  const { files } = parsePatch(forged);
  expect(files).toHaveLength(1);
  expect(files[0]?.hunks[0]?.lines.map(({ kind, text }) => [kind, text])).toEqual([
    ["context", "kept"], ["removed", "-- a/y"], ["added", "++ b/y"], ["added", "diff --git a/z b/z"],
  ]);
});

test("a patch that was cut in a hunk is shown as far as it goes", () => {
  const { files } = parsePatch("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -0,0 +1,900 @@\n+one\n+two\n");
  expect(files[0]?.numAdded).toBe(2);
});

test("a quoted name keeps its escapes, so it is one line", () => {
  const { files } = parsePatch('diff --git "a/x\\ny" "b/x\\ny"\nnew file mode 100644\n--- /dev/null\n+++ "b/x\\ny"\n@@ -0,0 +1,1 @@\n+1\n');
  expect(files[0]?.name).toBe('"x\\ny"');
});

test("an empty patch has no files", () => {
  expect(parsePatch("")).toEqual({ notes: [], files: [] });
});
