"""What is compiled: runs of messages between Proton and Python in one call, the guard before the
engine.

Everything runs on the loop's thread. It may import `pipeline`. Start with `pump`; `build_pump`
compiles.
"""
