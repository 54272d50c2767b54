"""Models, each behind the same interface.

Read ``base`` first: what the agent asks of a provider and which events it gets back. ``catalog``
chooses the provider for a run and says why; ``local_servers`` finds model servers on this machine.

    anthropic, openai    one file per API; ``…_request`` turns our messages into the vendor's
    sdk_provider         what both share: one client, one stream
    sdk, sdk_errors      import a vendor's SDK when it is needed; its errors as four of ours
    encoding             JSON and file names as every API accepts them
    retry                asks again after errors that pass
    rehearsal            a deterministic offline model; ``rehearsal_script`` says what it does
    fault_injection      breaks the streams of another provider, for tests and drills
"""
