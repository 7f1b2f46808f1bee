"""The owner of each log: which gateway takes over, how a log moves, how logs are spread.

It imports nothing of ours. `heirs` has the rules of all homes; `members`, `moves` and `spreading`
those of a lake. All of it is pure: times are seconds of the caller's own monotonic clock.
"""
