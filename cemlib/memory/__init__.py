"""What the jobs of a study will need of memory, estimated before any of them has run.

A job is rehearsed on torch's meta device: its networks, its attack's networks and its batches are
built in their real sizes but without data, and every tensor that would be made or freed moves a
simulated heap (`heap`, `recorder`). The process itself is measured (`process`), the images are
counted (`facts`). `estimate` puts it together. Nothing here decides a result; no job imports it.
"""
