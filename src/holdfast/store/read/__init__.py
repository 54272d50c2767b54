"""From entries to state: fold, branches, followers, exports."""
