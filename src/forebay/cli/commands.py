"""Every command: its name, what it does in one line, and the function that is loaded when it is called."""

from typing import NamedTuple


class Command(NamedTuple):
    summary: str
    target: str


GROUPS = {
    "dead": "Dead letters: tasks that failed and that nothing will retry by itself.",
    "keys": "API keys: who may use the HTTP API, for which tenant, and for what.",
    "lanes": "Lanes: tasks that wait for the same thing.",
    "limits": "Limits: how much of a provider's quota is used, by whom, and how much may be.",
    "callbacks": "Callbacks: where jobs tell of themselves, and what was delivered.",
    "config": "The settings.",
    "store": "The ledger and the blob store.",
}

COMMANDS = {
    "run": Command("Read documents: PDFs and images in, Markdown, text, JSON or searchable PDF out.", "run:run"),
    "estimate": Command("Say what documents would take, before anything is spent.", "estimate:estimate"),
    "submit": Command("Submit a task, or many from a file.", "submitting:submit"),
    "get": Command("Show a task or a job.", "looking:get"),
    "list": Command("List tasks or jobs, newest first.", "looking:listing"),
    "history": Command("Show what happened to a task, attempt by attempt, or in a job.", "history:history"),
    "why": Command("Say why a task or a job does not run now.", "looking:why"),
    "result": Command("Write a result to stdout or to a file.", "result:result"),
    "retry": Command("Run again what failed or was canceled, or completed with a result that is lost.", "acting:retry"),
    "cancel": Command("Cancel tasks or jobs.", "acting:cancel"),
    "delete": Command("Delete tasks or jobs with their history.", "acting:delete"),
    "dead list": Command("List dead letters, newest first.", "dead:listing"),
    "dead show": Command("Show a dead letter with its evidence.", "dead:show"),
    "dead requeue": Command("Run dead letters again.", "dead:requeue"),
    "dead drop": Command("Delete dead letters.", "dead:drop"),
    "worker": Command("Run a worker until SIGTERM or Ctrl-C.", "worker:worker"),
    "workers": Command("List the workers and what they run.", "worker:workers"),
    "serve": Command("Serve the HTTP API, with a worker beside it, until SIGTERM or Ctrl-C.", "serve:serve"),
    "keys create": Command("Make an API key and show its token, once.", "keys:create"),
    "keys list": Command("List API keys, without their tokens.", "keys:listing"),
    "keys revoke": Command("End an API key for good.", "keys:revoke"),
    "lanes list": Command("List lanes that are paused or have open tasks.", "lanes:listing"),
    "lanes pause": Command("Let no task of a lane start; what runs goes on.", "lanes:pause"),
    "lanes resume": Command("End the pause of a lane.", "lanes:resume"),
    "limits list": Command("List limits and how they stand.", "limits:listing"),
    "limits show": Command(
        "Show a limit: its bounds, who set them, which processes use it and which wait.", "limits:show"
    ),
    "limits set": Command("Change or define a limit, for every process at once.", "limits:change"),
    "limits pause": Command("Let no call of a limit start; what runs goes on.", "limits:pause"),
    "limits resume": Command("End the pause, cool-down or park of a limit.", "limits:resume"),
    "limits clear": Command("Take back what was set of a limit.", "limits:clear"),
    "limits reset": Command("Forget what processes hold of a limit that have ended, or all of it.", "limits:reset"),
    "limits presets": Command(
        "List the limits that come with Forebay, and where their numbers come from.", "limits:presets"
    ),
    "callbacks list": Command("List where callbacks go.", "callbacks:listing"),
    "callbacks show": Command("Show an endpoint of callbacks and what was sent to it.", "callbacks:show"),
    "callbacks resend": Command("Send callbacks again that failed for good.", "callbacks:resend"),
    "callbacks test": Command("Send a callback that says no more than that it is a test.", "callbacks:send_test"),
    "callbacks rotate": Command("Give an endpoint a new secret, and print it.", "callbacks:rotate"),
    "plan": Command("Tell which bound of a limit binds, and the throughput to expect.", "plan:plan"),
    "simulate": Command("Stand in for the paid APIs on this machine, and record what was called.", "simulate:simulate"),
    "demo": Command("Show on this machine that the promises hold: a simulated provider, workers, a kill.", "demo:demo"),
    "config show": Command("Show each setting, its value and who set it.", "config:show"),
    "doctor": Command("Check this installation and say what to do.", "doctor:doctor"),
    "store init": Command("Create the home folder, the ledger and the blob store.", "store:init"),
    "store migrate": Command("Bring the ledger to the schema of this version.", "store:migrate"),
    "store adopt": Command("Give the ledger to this environment (FOREBAY_ENV).", "store:adopt"),
    "store check": Command("Look for damage in the ledger.", "store:check"),
    "store gc": Command("Delete blobs that nothing points at.", "store:gc"),
    "store backup": Command("Copy the ledger to a new file while work goes on.", "store:backup"),
    "store prune": Command("Delete what ended longer ago than its retention.", "store:prune"),
    "completion": Command("Print the completion script of a shell.", "completion:completion"),
}


def split(words: list[str]) -> tuple[str, list[str]]:
    """The command that the words begin with, or a group, or "" for none, and the words that are left."""
    if not words:
        return "", []
    if len(words) > 1 and f"{words[0]} {words[1]}" in COMMANDS:
        return f"{words[0]} {words[1]}", words[2:]
    if words[0] in COMMANDS or words[0] in GROUPS:
        return words[0], words[1:]
    return "", words
