import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxes.drivers.base import ExecResult
from workers.agent import prompts, tools
from workers.agent.errors import FormatError


def observe(
    output: str,
    *,
    exit_code: int = 0,
    action_format: tools.ActionFormat = "raw",
    **policy: object,
) -> str:
    result = ExecResult(output, exit_code, 0.1)
    return tools.observation_text(
        action_format,
        result,
        tools.ObservationPolicy(**policy),  # type: ignore[arg-type]
    )[0]


def test_raw_takes_the_whole_text_as_one_command() -> None:
    assert tools.parse_action("raw", "  sed -i s/a/b/ m.py\npython m.py\n") == (
        "sed -i s/a/b/ m.py\npython m.py"
    )


@pytest.mark.parametrize("text", ["", " \n\t "])
def test_raw_without_any_text_is_a_format_error(text: str) -> None:
    with pytest.raises(FormatError):
        tools.parse_action("raw", text)


@pytest.mark.parametrize("character", ["\x00", "\x1b", "\x07", "\x7f", "\x08"])
def test_a_command_with_a_control_character_is_refused_with_words(character: str) -> None:
    with pytest.raises(FormatError) as error:
        tools.parse_action("raw", f"echo {character}")
    assert error.value.observation == prompts.CONTROL_CHARACTERS


def test_bash_block_takes_the_content_of_the_only_block() -> None:
    text = "I look first.\n```bash\ncat <<'E'\n`` inline ```\nE\n```\nThat is all.\n"
    assert tools.parse_action("bash_block", text) == "cat <<'E'\n`` inline ```\nE"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("no block", 0),
        ("```python\nprint()\n```", 0),
        ("```bash\nls\n```\n```bash\npwd\n```", 2),
        ("```bash\nls", 1),
        ("```bash\nls\n```\n```bash\npwd", 2),
    ],
)
def test_bash_block_wants_exactly_one_closed_block(text: str, count: int) -> None:
    with pytest.raises(FormatError) as error:
        tools.parse_action("bash_block", text)
    assert f"found {count} blocks" in error.value.observation


@pytest.mark.timeout(20)  # a quadratic one takes hours
def test_parsing_and_cleaning_are_linear_in_hostile_text() -> None:
    text = "```bash\n" * 100_000
    with pytest.raises(FormatError):
        tools.parse_action("bash_block", text)
    tools.plain("\x1b[" * 100_000 + "0" * 100_000 + "x\r" * 100_000)


def test_the_sentinel_submits_only_as_first_line_of_a_command_that_succeeded() -> None:
    sentinel = prompts.SUBMIT_SENTINEL
    ok = ExecResult(f"\n{sentinel}\ndiff --git", 0, 0.1)
    assert tools.is_submission("bash_block", "x", ok)
    assert not tools.is_submission("bash_block", "x", ExecResult(sentinel, 1, 0.1))
    assert not tools.is_submission("bash_block", "x", ExecResult(f"a\n{sentinel}", 0, 0.1))
    assert not tools.is_submission("bash_block", "submit", None)
    assert tools.is_submission("raw", "submit", None)
    assert not tools.is_submission("raw", "echo submit", None)


def test_the_model_sees_no_escape_sequences_and_no_overwritten_progress() -> None:
    output = "\x1b[31mred\x1b[0m\r\n 10%\r 50%\r100%\n\x1b]0;title\x07done\x00\x08!\n"
    assert observe(output) == "red\n100%\ndone!"


def test_the_exit_code_is_shown_when_asked_for_and_not_zero() -> None:
    assert observe("x", exit_code=1) == "x"
    assert observe("x", exit_code=1, shows_exit_code=True) == "x\n[exit code 1]"
    assert observe("x", exit_code=0, shows_exit_code=True) == "x"


def test_bash_block_observations_have_the_form_of_mini_swe_agent() -> None:
    assert observe("a\n", exit_code=2, action_format="bash_block") == (
        "<returncode>2</returncode>\n<output>\na\n</output>"
    )


def test_an_empty_output_says_so() -> None:
    assert observe("\n") == "(no output)"
    assert observe("", no_output="") == ""


def test_a_long_output_keeps_head_and_tail_and_counts_the_rest() -> None:
    text, num_cut = tools.observation_text(
        "raw",
        ExecResult("a" * 500 + "b" * 500, 0, 0.1, truncated_bytes=7),
        tools.ObservationPolicy(max_bytes=100),
    )
    assert text == "a" * 50 + "\n[... 900 bytes cut ...]\n" + "b" * 50
    assert num_cut == 907


@given(st.text(max_size=400), st.integers(0, 200))
def test_a_cut_never_breaks_a_character_and_counts_every_byte(text: str, max_bytes: int) -> None:
    cut, num_cut = tools.cut_middle(text, max_bytes)
    if num_cut == 0:
        assert cut == text
    else:
        kept = cut.replace(f"\n[... {num_cut} bytes cut ...]\n", "", 1)
        assert "\ufffd" not in kept or "\ufffd" in text
        assert len(kept.encode()) + num_cut == len(text.encode())
        assert len(kept.encode()) <= max_bytes


@given(st.text(max_size=200))
def test_plain_text_holds_no_control_characters(text: str) -> None:
    plain = tools.plain(text)
    assert all(c in "\n\t" or ord(c) >= 32 for c in plain)
    assert tools.plain(plain) == plain


def test_stored_text_holds_no_nul_and_keeps_its_colours() -> None:
    assert tools.storable("\x1b[31ma\x00b") == "\x1b[31ma␀b"
    assert tools.storable("\udc80é").encode() == "?é".encode()
