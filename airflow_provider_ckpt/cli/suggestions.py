"""Suggestions for mistyped commands and options.

``argparse`` names no similar option. For a mistyped ``--root`` it complains that ``--root`` is required. So this module
checks the arguments first.
"""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile

_OPTION = re.compile(r"--[a-z][\w-]*")
Commands = Mapping[str, argparse.ArgumentParser]


def refuse_mistyped(parser: argparse.ArgumentParser, commands: Commands, argv: Sequence[str]) -> None:
    """End the process with exit code 2 if there is no such command, or if the command has no such option."""
    command = next((word for word in argv if not word.startswith("-")), None)
    if command is None:
        return
    if command not in commands:
        choices = f"; the commands are {', '.join(commands)}"
        parser.error(f"there is no command {command!r}{_did_you_mean(command, commands) or choices}")
    options = _options(commands[command])
    for name in _given(argv[argv.index(command) + 1 :]):
        if not any(option.startswith(name) for option in options):  # because argparse accepts a unique beginning
            similar = _did_you_mean(name, options) or _elsewhere(commands, command, name)
            commands[command].error(f"there is no option {name}{similar}")


def _given(words: Sequence[str]) -> Iterator[str]:
    """Yield the options among the arguments. ``argparse`` never uses an argument with leading dashes as a value."""
    return (
        word.partition("=")[0] for word in takewhile(lambda argument: argument != "--", words) if word.startswith("--")
    )


def _options(parser: argparse.ArgumentParser) -> list[str]:
    return sorted({*_OPTION.findall(parser.format_usage()), "--help"})


def _did_you_mean(word: str, choices: Iterable[str]) -> str:
    matches = difflib.get_close_matches(word, list(choices), n=1)
    return f"; did you mean {matches[0]}?" if matches else ""


def _elsewhere(commands: Commands, command: str, option: str) -> str:
    """Return a hint that names the other commands with this option."""
    others = [name for name, parser in commands.items() if option in _options(parser)]
    hint = f"; these commands have it: {', '.join(others)}" if others else ""
    return f"{hint}; `ckpt {command} --help` lists the options"
