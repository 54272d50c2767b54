"""One file per command: read the arguments, call the keeper or the store, print text or JSON."""
