"""A peer's frames before they reach Proton's engine, and the engine's errors about broken frames.

It may import `runtime` and `native`. Start with `frame_scanner`.
"""
