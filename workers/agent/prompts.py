"""Every word the agent says to the model, apart from the task's own instruction.

The defaults of `bash_block` follow mini-swe-agent 2.4 (one bash block per answer, the sentinel line
to submit, <returncode> and <output> around what came back), so that traces of that agent fit.
"""

from __future__ import annotations

SUBMIT_COMMAND = "submit"
"""raw: this command ends the trajectory."""

SUBMIT_SENTINEL = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""bash_block: a command whose first output line is this, with exit code 0, ends the trajectory."""

BASH_BLOCK_SYSTEM = f"""\
You are a software engineer who works in a shell. Solve the task by running commands, one an answer.

Each answer holds a short thought and exactly one command in a block of this form:

```bash
the command
```

The shell is kept: the working directory, variables and background jobs persist between commands.
You see the exit code and the output of each command. Long output is cut in the middle.
When the task is done, submit with this command, alone in its block; nothing can be done after it:

```bash
echo {SUBMIT_SENTINEL}
```
"""

NO_COMMAND = "There was no command in your answer."
CUT_SHORT = "Your answer was cut at {limit} tokens and nothing was run. Answer more briefly."
CONTROL_CHARACTERS = "Nothing was run: the command holds control characters."
BLOCK_COUNT = (
    "Give exactly one action, in one block that starts with ```bash and ends with ```; "
    "found {count} blocks."
)
CUT_OUTPUT = "[... {count} bytes cut ...]"
EXIT_CODE = "[exit code {code}]"
NO_OUTPUT = "(no output)"
