snap_id = sandbox.snapshot()                          # capture warm kernel
# ...later, a new turn...
resumed = Sandbox.create(from_snapshot=snap_id)       # imports + data still loaded

child = sandbox.fork()                                 # CoW clone for a speculative branch
