"""Whether a home is sound: what `distributary verify` reads, counts and says."""
