"""The completions of bash, zsh and fish, asked in the real shells."""
import os
import re
import shutil
import subprocess

import pytest

from conftest import ROOT, TIME_FACTOR
from ctlhelp import TTLCTL, Terminal, environment, ttlctl

FOLDER = ROOT / "mount-helpers" / "completions"


def subcommands():
    return {line.split()[0] for line in ttlctl("--help").out.split("\n\n")[1].splitlines()}


# bash: the completion function is called as readline would. How it cuts words is bash's own COMP_WORDBREAKS.

BASH = r"""
source "$1"
COMP_LINE=$2 COMP_POINT=${#2}
words=() rest=$2
while [ -n "$rest" ]; do
    case $rest in
    ' '*) rest=${rest# } && [ -n "$rest" ] || words+=('') ;;
    [=:]*) words+=("${rest:0:1}") && rest=${rest:1} ;;
    *) word=${rest%%[ =:]*} && words+=("$word") && rest=${rest:${#word}} ;;
    esac
done
COMP_WORDS=("${words[@]}") COMP_CWORD=$((${#words[@]} - 1))
_ttlctl
printf '%s\n' "${COMPREPLY[@]}"
"""


def bash(line, cwd):
    done = subprocess.run(["bash", "--norc", "-c", BASH, "bash", str(FOLDER / "ttlctl.bash"), line], cwd=cwd,
                          env=environment(PATH=f"{TTLCTL.parent}:{os.environ['PATH']}"), capture_output=True,
                          text=True, timeout=30 * TIME_FACTOR, check=False)
    # compopt outside of a real completion complains; nothing else may.
    assert all("compopt" in error for error in done.stderr.splitlines()), done.stderr
    return {line for line in done.stdout.split("\n") if line}


# fish tells itself what it would complete.

def fish(line, cwd):
    done = subprocess.run(["fish", "--no-config", "-c", f"source {FOLDER}/ttlctl.fish; complete -C $argv[1]", line],
                          cwd=cwd, env=environment(PATH=f"{TTLCTL.parent}:{os.environ['PATH']}", HOME=str(cwd)),
                          capture_output=True, text=True, timeout=30 * TIME_FACTOR, check=False)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return {line.split("\t")[0] for line in done.stdout.splitlines()}


# zsh completes on a terminal only: what it offers is listed there.

ZSH = r"""
PS1='ready> ' PROMPT_EOL_MARK='' LISTMAX=10000
fpath=($FOLDER $fpath)
autoload -Uz compinit && compinit -u -D
zstyle ':completion:*' list-colors ''
zstyle ':completion:*' menu no
unsetopt beep menu_complete auto_menu bracketed_paste
setopt list_rows_first list_packed
bindkey '^I' list-choices
unset zle_bracketed_paste
PS1='ready> '
"""


def zsh(line, cwd):
    home = cwd / "zsh-home"
    home.mkdir(exist_ok=True)
    (home / ".zshrc").write_text(ZSH)
    with Terminal("zsh", "-i", cwd=cwd, columns=200, rows=200, ZDOTDIR=str(home), HOME=str(home), FOLDER=str(FOLDER),
                  PATH=f"{TTLCTL.parent}:{os.environ['PATH']}") as terminal:
        terminal.wait_for("ready> ")
        terminal.text = ""
        terminal.type(line + "\t")
        terminal.wait_for(r"\n[\s\S]*ready> |\n[^\n]*\w")
        terminal.type("\x15exit\n")
        terminal.ended()
        return set(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x1f]", " ", terminal.text).split())


SHELLS = {"bash": bash, "fish": fish, "zsh": zsh}


@pytest.fixture(params=SHELLS)
def complete(request, mount, tmp_path):
    if not shutil.which(request.param):
        pytest.skip(f"{request.param} is not installed")
    os.mkdir(mount.p("folder"))
    mount.set("folder", "ttl.index.lastSeen", "5")
    mount.set(".", "ttl.index.above", "5")
    mount.write("afile", "x")
    os.symlink(mount.path, tmp_path / "m")

    def asked(line):
        return SHELLS[request.param](line, tmp_path)

    asked.mount = mount
    return asked


def test_subcommands(complete):
    assert subcommands() <= complete("ttlctl ")
    assert "histogram" in complete("ttlctl hi")


def test_options(complete):
    assert {"--json", "--mount", "--help", "--wait"} <= complete("ttlctl set --")
    assert {"--sort", "--recursive"} <= complete("ttlctl ls --")


def test_values_of_options(complete):
    assert {"deadline", "name", "size"} <= complete("ttlctl ls --sort ")
    assert {"iso8601", "epochMillis"} <= complete("ttlctl index create --as ")


def test_keys_and_values(complete):
    keys = complete("ttlctl get m/folder ")
    assert {"deadline", "idle", "index.lastSeen"} <= keys
    assert {"refresh=access", "refresh=extend"} <= complete("ttlctl set m/folder refresh=") or \
        {"access", "extend"} <= complete("ttlctl set m/folder refresh=")
    assert any(key.startswith("idle") for key in complete("ttlctl set m/folder id"))


def test_indexes_of_the_directory(complete):
    assert {"create", "drop", "explain"} <= complete("ttlctl index ")
    found = complete("ttlctl index drop m/folder ")
    assert "lastSeen" in found and "above" not in found


def test_mounts(complete):
    assert str(complete.mount.path) in complete("ttlctl status ")


def test_files(complete):
    found = complete("ttlctl hold m/")
    assert any("afile" in name for name in found) and any("folder" in name for name in found)


# Syntax

@pytest.mark.parametrize("words", [["bash", "-n", "ttlctl.bash"], ["zsh", "-n", "_ttlctl"], ["fish", "-n", "ttlctl.fish"]],
                         ids=["bash", "zsh", "fish"])
def test_syntax(words):
    if not shutil.which(words[0]):
        pytest.skip(f"{words[0]} is not installed")
    done = subprocess.run(words, cwd=FOLDER, capture_output=True, text=True, timeout=30 * TIME_FACTOR, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
