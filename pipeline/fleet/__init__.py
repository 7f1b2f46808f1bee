"""Which gateway has which log: who takes over, how a log moves, how logs are spread over machines.

It imports nothing of ours. `heirs` is the rule of all homes; `members`, `moves` and `spreading`
are a lake's. All of it is pure: times are seconds of the caller's own clock, which runs evenly.
"""
