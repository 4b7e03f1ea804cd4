# SPDX-License-Identifier: Apache-2.0
r"""What the bash driver has its shell do, as text: everything of ours that bash itself runs.

Theory of operation. The shell reads its script from a pipe, command by command, and this is what it reads: a line
of ours before each cell, one that sources the cell, one that reports how it ended. All of them are at the top level
of the script: a cell sourced in a function could declare no global variables.

Paths. What the shell needs is at ``/proc/DRIVER/fd/N``: descriptors of the driver, which no child of the shell
inherits and no user code can remove.

Records, from the shell to the driver (the driver finds them by the session's random token, whatever else is written
to that pipe), each ended by NUL::

    TOKEN ready                the lines so far have been run
    TOKEN done STATUS WORDS    a cell has ended. WORDS: "stopped" if an interrupt cut it short;
                               "reload FLAGS COMMAND" if it ended the shell, whose options ($-) were FLAGS and which
                               was at COMMAND, as far as it knows; or none

Stopping. The driver sends SIGURG (which does nothing where it is not trapped, as in programs). Bash runs the trap
between two commands, once the program in the foreground is gone; unlike SIGINT it is never taken for something that
the program has dealt with. The trap sets a DEBUG trap, which, as ``extdebug`` lets it, makes each further command a
``return``, until the shell is back at its script. A loop in which nothing is a command to that trap, such as
``until (a); do (b); done``, is left when the signal comes again, a while later: then the trap's own first command is
a ``return``.

Errors that end a script (``set -e``, ``set -u``, ``${x:?}``, SIGTERM) end this shell too; bash knows no way around
it. But unless ``exit`` was called, the EXIT trap writes down the state and replaces the shell by a new one (the same
process, so that its children, its limits and its descriptors stay), which reads the state and goes on with the script
in the pipe. A ``return`` out of the EXIT trap would be the shell's end, and SIGURG may come just before its first
command; that one is no command to the DEBUG trap, and its redirection sets the variable that turns stopping off.

Our lines say ``\builtin``, so that no alias or function of the user's takes the place of a command.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from shlex import quote

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
"""A name that a shell variable can have."""

RETURN = 'return "$1"\n'
"""Sourced with a number, it ends with that status. There is no other way to set one without a new process."""

# The EXIT trap cannot tell "exit" from an error, so that says it itself.
_EXIT = (
    r"exit() { __pandastack_exit=$?;"
    r' if (($#)); then \builtin exit "$@"; else \builtin exit "$__pandastack_exit"; fi; }'
)

# The options that a stop has changed, as they were before.
_UNDO_STOP = r"""	\builtin shopt -u extdebug
	if [[ $__pandastack_stop == *2* ]]; then \builtin set -E; fi
	if [[ $__pandastack_stop == *3* ]]; then \builtin set -T; fi
	if [[ $__pandastack_stop == *1* ]]; then \builtin set -e; fi
"""

# Outside of the braces: what is redirected there would be so in the new shell too.
_LEAVE = (
    r"{ \builtin :; } <<<$((__pandastack_reload=$?)) 2>/dev/null;"
    r" { \builtin trap - DEBUG; \builtin . ON_EXIT; } 2>/dev/null;"
    r" { [[ -v __pandastack_exit ]]; } 2>/dev/null || BASH_ENV=RESTORE \builtin exec BASH --norc --noprofile SCRIPT"
)

_ON_EXIT = (
    r"""if [[ -v __pandastack_stop ]]; then
"""
    + _UNDO_STOP
    + r"""fi
__pandastack_reload+=" reload $- ${BASH_COMMAND::4000}"
if [[ ! -v __pandastack_exit ]]; then
	\builtin trap - URG
	\builtin unset -v __pandastack_status __pandastack_stop
	{
		\builtin shopt -p
		\builtin declare -f
		\builtin declare -Fx
		\builtin declare -p
		\builtin alias -p
		\builtin trap -p
		\builtin printf 'set --'
		if (($#)); then \builtin printf ' %q' "$@"; fi
		\builtin printf '\n'
		\builtin set +o
	} >|STATE
	\builtin set +x
fi
"""
)

_RESTORE = r"""{
	\builtin unset -v BASH_ENV
	\builtin . STATE
	\builtin . BOOT
} >/dev/null 2>&1
"""

# Only in a cell: then the outermost sourced file is the one that $0 names. What is ours must be run to its end.
_STOP = (
    r'{ if [[ ${#BASH_SOURCE[@]} -gt 1 && ${BASH_SOURCE[-2]} == "$0" && ! -v __pandastack_reload ]]; then'
    r" [[ -v __pandastack_stop ]] || {"
    r" __pandastack_stop=stopped;"
    r" if [[ -o errexit ]]; then __pandastack_stop+=1; fi;"
    r" if [[ -o errtrace ]]; then __pandastack_stop+=2; fi;"
    r" if [[ -o functrace ]]; then __pandastack_stop+=3; fi; };"
    r" \builtin set +e; \builtin shopt -s extdebug;"
    r" \builtin trap '{ [[ -v __pandastack_reload || ${#BASH_SOURCE[@]} -lt 2"
    r""" || ${BASH_SOURCE[-2]} != "$0" ]] || \builtin . RETURN 2; } 2>/dev/null' DEBUG; fi; } 2>/dev/null"""
)

# The DEBUG trap goes first: ours would leave the report, and one of the user's no later cell could remove.
_REPORT_LINE = r"{ __pandastack_status=$?; \builtin trap - DEBUG; \builtin . REPORT; } >/dev/null 2>&1"

_REPORT = (
    r"""if [[ -v __pandastack_stop ]]; then
"""
    + _UNDO_STOP
    + r"""	__pandastack_status+=" stopped"
elif [[ -v __pandastack_reload ]]; then
	__pandastack_status=$__pandastack_reload
else
	__pandastack_status+=" "
fi
\builtin printf 'TOKEN done %s\0' "$__pandastack_status" >STATUS
\builtin unset -v __pandastack_status __pandastack_stop __pandastack_reload
"""
)


@dataclass(frozen=True)
class Paths:
    """What the shell opens: two pipes, and files that are written once the paths are known."""

    commands: str
    """The pipe that is its script."""
    status: str
    """The pipe that takes records."""
    state: str
    """A file for what a shell leaves to the one that replaces it."""
    ret: str
    """A file with ``RETURN``."""
    boot: str
    """A file with ``Text.boot``; the next ones likewise."""
    restore: str
    report: str
    on_exit: str


class Text:
    """Makes what one session's shell is to run. A line has no line break but in quoted text."""

    def __init__(self, bash: str, paths: Paths, token: str) -> None:
        self._words = {
            "BASH": quote(bash),
            "BOOT": paths.boot,
            "ON_EXIT": paths.on_exit,
            "REPORT": paths.report,
            "RESTORE": paths.restore,
            "RETURN": paths.ret,
            "SCRIPT": f"-O expand_aliases {paths.commands}",
            "STATE": paths.state,
            "STATUS": paths.status,
            "TOKEN": token,
        }
        self.on_exit = self._fill(_ON_EXIT)
        self.restore = self._fill(_RESTORE)
        self.report = self._fill(_REPORT)
        stop, leave = quote(self._fill(_STOP)), quote(self._fill(_LEAVE))
        self.boot = f"{_EXIT}\n\\builtin trap {stop} URG\n\\builtin trap {leave} EXIT\n"
        self._report_line = self._fill(_REPORT_LINE) + "\n"
        self._ready = f"\\builtin printf '{token} ready\\0' >{paths.status}"
        self._paths = paths

    def source(self, path: str) -> str:
        """Run a file of ours unheard, then ``ready``."""
        return f"{{ \\builtin . {path}; {self._ready}; }} >/dev/null 2>&1\n"

    def cell(self, path: str, last_status: int) -> str:
        """Run the cell in a file, with ``$?`` as the last one left it, then report."""
        forget = "\\builtin unset -v __pandastack_reload __pandastack_exit"
        ours = f"{forget}; \\builtin . {self._paths.ret} {last_status} && \\builtin :"
        return (
            f"{{ BASH_ARGV0={quote(path)}; {ours}; }} >/dev/null 2>&1\n\\builtin . {quote(path)}\n{self._report_line}"
        )

    def _fill(self, template: str) -> str:
        return re.sub(r"\b[A-Z_]{4,}\b", lambda match: self._words.get(match[0], match[0]), template)


def save_variables(names: list[str], status_path: str) -> str:
    """Return a script that writes each variable's declaration (nothing for one that is not set) and NUL."""
    lines = [f"\\builtin declare -p {name}; \\builtin printf '\\0'" for name in names]
    return f"{{ {'; '.join(lines)}; }} >{status_path}\n"


def export_variables(env: Mapping[str, str]) -> str:
    """Return a script that exports variables, but for those that cannot be changed."""
    return "".join(
        f"[[ ${{{name}:+${{{name}@a}}}} == *r* ]] || \\builtin export {name}={quote(value)}\n"
        for name, value in env.items()
    )


def restore_variables(env: Mapping[str, str], saved: Mapping[str, str]) -> str:
    """Return a script that undoes ``export_variables`` but for variables that have another value by now.

    Args:
        env: what was exported.
        saved: by name, the declarations from before.
    """
    return "".join(
        f"if [[ ${{{name}-}} == {quote(value)} ]]; then \\builtin unset -v {name}\n{saved.get(name, '')}\nfi\n"
        for name, value in env.items()
    )
