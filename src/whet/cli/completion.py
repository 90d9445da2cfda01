"""`whet completion SHELL`: the script that teaches a shell to complete whet's commands, options and run ids."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from whet.cli.app import COMPLETE_VARIABLE, root

SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the completion script of SHELL.

    \b
    bash:  whet completion bash > ~/.local/share/bash-completion/completions/whet
    zsh:   whet completion zsh > "${fpath[1]}/_whet"
    fish:  whet completion fish > ~/.config/fish/completions/whet.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(root, {}, "whet", COMPLETE_VARIABLE)
    # The source is formatted here, not by source(): that one starts a bash to ask for its version.
    click.echo(script.source_template % script.source_vars())
