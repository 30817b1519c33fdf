"""Runs tasks: submit, claim, run, settle, rescue, cancel; knows nothing of documents."""
