"""What every face does with sessions, without a face.

The command line, the chat and picker, and the server offer the same operations. They are here once:
each function takes a store, returns values, prints nothing, and raises errors of
``holdfast.errors``. Nothing here knows arguments, screens or HTTP.

In reading order:

lookup         a session by id, title, part of an id, or path
filters        sessions by folder, project, time, tags and state, and how many are hidden
conversation   the messages of a branch, whole or page by page
tree           the branches of a session
stats          tokens, cost and activity by day, model, project and agent; stats_chart draws them
edit           titles, tags and deletion, by the lock or by the runner that has the session
trash          sessions in the trash, by name
runners        find, start and ask runners
workspaces     the folder of a session, and the sessions of a folder
preflight      whether a model can answer a prompt, before the prompt is saved
import_plan    what an import would do
gc             what a clean-up would remove, and removing it
doctor         what runners left behind
text, times    text in columns, counted nouns, and times as people type them
"""
