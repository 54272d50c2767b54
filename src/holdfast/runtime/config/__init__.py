"""What the user has configured: settings, credentials, trust, and the options of one run.

Read ``settings`` first: it lists every setting, its values, and whether a project may set it.
``load`` merges the user's file and the project's; ``toml_file`` finds, reads and checks one of
them. ``run_options`` are the values that one run asks for, before the settings apply.

``credentials`` stores the keys of ``holdfast login``, ``trust`` the projects whose files may
configure the agent; both use ``private_file``, a small file that only this user can read.
``secret_variables`` keeps keys in environment variables away from programs that are started.
"""
