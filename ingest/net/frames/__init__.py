"""A peer's frames beside Proton's engine: what of them reaches it, and what it says of broken ones.

It may import `runtime` and `native`. Start with `frame_scanner`.
"""
