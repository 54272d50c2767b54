"""Which tool calls need the user's approval.

``policy`` has the rules of ``--allow`` and of the configuration, decides about one call, and knows
which shell commands only read files inside the workspace.
"""
