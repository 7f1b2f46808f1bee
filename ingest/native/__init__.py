"""The compiled C: runs of messages between Proton and Python in one call, the guard before the
engine.

All functions run on the loop's thread. The room may import `pipeline`. Start with `pump`;
`build_pump` compiles.
"""
